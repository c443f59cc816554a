"""Statements whose canonical form has a golden; `python -m tests.gsql.gsql_cases` writes the goldens."""

from __future__ import annotations

from pathlib import Path

from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file

FUNCTIONS = ("count", "sum", "or_aggr")
"""What these texts write as keywords: the parser is told the names."""

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "gsql"
QUERIES = sorted(GOLDEN.glob("*.gsql"))


def write() -> None:
    """Rewrites the goldens."""
    for path in (GOLDEN / "canonical").glob("*.gsql"):
        path.unlink()
    (GOLDEN / "canonical").mkdir(exist_ok=True)
    for path in QUERIES:
        canonical = print_file(parse(path.read_text(encoding="utf-8"), path.name, FUNCTIONS))
        (GOLDEN / "canonical" / path.name).write_text(canonical, encoding="utf-8")


if __name__ == "__main__":
    write()
