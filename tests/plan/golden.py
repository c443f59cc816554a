"""Goldens of what EXPLAIN says of the query files in `queries/` and `queries/seeds/`."""

from __future__ import annotations

from pathlib import Path

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.user_functions import load_functions
from lowwater.config import load_config
from lowwater.errors import QueryError
from lowwater.gsql.declarations import parse_declarations
from lowwater.plan.context import Context, Links
from lowwater.plan.explain import explain
from lowwater.plan.explain.model import laid_out, schema
from lowwater.plan.queryset import Plan, plan_texts
from tests.replay.golden import LINKS, SETS

ROOT = Path(__file__).resolve().parents[2]
QUERIES = ROOT / "queries"
SEEDS = QUERIES / "seeds"
GOLDEN = ROOT / "tests" / "golden" / "plans"
SCHEMA = ROOT / "docs" / "explain.schema.json"
FUNCTIONS = ROOT / "examples" / "functions" / "duplicates.fun"
OTHER_FORMS = {"json": ("002-q9", "004-hostnames"), "mermaid": ("000-7.2", "002-q3", "demo")}
"""Query files whose plan has a golden in another form too."""

SUFFIXES = {"text": "txt", "json": "json", "mermaid": "mmd"}


def names() -> list[str]:
    """The query files."""
    return sorted(path.stem for folder in (QUERIES, SEEDS) for path in folder.glob("*.gsql"))


def cases() -> list[tuple[str, str]]:
    """(query file, form) of every golden."""
    others = [(name, form) for form, chosen in OTHER_FORMS.items() for name in chosen]
    return [*((name, "text") for name in names()), *others]


def links(folder: Path) -> Links:
    """Of the seeds as EXPLAIN without captures: any name is a link, and the sets are known."""
    return Links(None, load_config(path=SEEDS / "links.toml").sets) if folder == SEEDS else Links(LINKS, SETS)


def context() -> Context:
    """The shipped functions and those of the example."""
    return Context(catalog=CATALOG.extended(load_functions([FUNCTIONS], read=parse_declarations)))


def plan(name: str) -> Plan:
    """The plan of a query file."""
    path = next(path for folder in (QUERIES, SEEDS) if (path := folder / f"{name}.gsql").exists())
    text = path.read_text(encoding="utf-8")
    return plan_texts([(str(path.relative_to(ROOT)), text)], links(path.parent), context=context())


def golden_text(name: str, form: str) -> str:
    """What EXPLAIN says of a query file."""
    try:
        return explain(plan(name), form)
    except QueryError as error:
        return f"{error}\n"


def golden_path(name: str, form: str) -> Path:
    """Where the golden is."""
    return GOLDEN / f"{name}.{SUFFIXES[form]}"


def main() -> None:
    """Rewrites the goldens and the schema."""
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, form in cases():
        golden_path(name, form).write_text(golden_text(name, form), encoding="utf-8")
    SCHEMA.write_text(laid_out(schema()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
