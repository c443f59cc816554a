"""Every operator and decoder is in the table of versions, and a change of the code of one must be thought about.

`python -m tests.plan.test_revisions` writes the digests of the code anew, once somebody has thought: whether a change
gives other rows, and if so, which revision says it (CONTRIBUTING, *A rule that gives other rows*).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from lowwater import revisions
from lowwater.capture.content.retention import DECODER_VERSION
from lowwater.capture.headers.links import NAMES
from lowwater.capture.tables.options import READER_VERSION
from lowwater.catalog.builtin import CATALOG
from lowwater.plan import operators as ops
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from tests.capture.linkframes import LINKS

ROOT = Path(__file__).resolve().parents[2] / "lowwater"
WRITTEN = ROOT.parent / "tests" / "golden" / "rules.json"

CODE: dict[str, tuple[str, ...]] = {
    "lfta": ("low/code/aggregation.py", "low/code/expressions.py", "low/code/kernel.py", "low/run.py",
             "low/runtime/node.py", "low/predicate.py"),
    "selection": ("stream/maps.py", "plan/operators.py::Map"),
    "grouping sets": ("plan/operators.py::Expand",),
    "merge": ("plan/operators.py::Union",),
    "windows": ("plan/operators.py::Bucket",),
    "aggregation": ("stream/aggregates.py", "stream/groups.py", "plan/operators.py::Group",
                    "catalog/builtin/aggregates.py", "catalog/native.py"),
    "running aggregation": ("stream/aggregates.py", "stream/groups.py", "plan/operators.py::Running"),
    "top rows": ("stream/groups.py", "plan/operators.py::Top", "plan/operators.py::ByEpoch"),
    "filling": ("stream/fill.py", "high/fill.py", "plan/operators.py::Fill", "plan/operators.py::ByEpoch"),
    "rows before": ("stream/over.py", "high/over.py", "catalog/tcp.py", "plan/operators.py::Over"),
    "sampling": ("stream/groups.py", "catalog/builtin/supergroups.py", "plan/operators.py::Sampling"),
    "join": ("stream/joins.py", "plan/operators.py::Join", "plan/operators.py::Window"),
    "FILTER_JOIN": ("stream/joins.py", "plan/operators.py::FilterJoin"),
    "WATCHLIST_JOIN": ("stream/joins.py", "plan/operators.py::WatchJoin", "catalog/watchlists.py"),
    "source": ("stream/records.py", "catalog/time.py", "plan/operators.py::Source"),
    "evaluation of slices": ("high/evaluate.py", "high/operators.py", "columns/values.py"),
    "functions": ("catalog/builtin/numbers.py", "catalog/builtin/strings.py", "catalog/calls.py", "catalog/values.py"),
    "decoder": ("capture/headers/links.py", "capture/headers/packet.py", "capture/headers/tunnels.py",
                "capture/headers/fields.py", "capture/content/applications.py", "capture/content/hello.py",
                "capture/records/sanity.py"),
    "reader of records": ("capture/tables/delimited.py", "capture/tables/blocks.py", "capture/tables/logs.py",
                          "capture/tables/columnar.py"),
}  # fmt: skip
"""What has a version -> the code by which it makes rows: a module, or a class of one."""

OF_PLANS = {"part", "sub-aggregation", "aggregation of sub-aggregates"}
"""Operators into which others are divided (`plan.shares`)."""


def operators() -> Iterator[type[ops.Node]]:
    """Every concrete operator of the product; other tests define more."""
    waiting: list[type[ops.Node]] = [ops.Node]
    for kind in waiting:
        waiting += kind.__subclasses__()
        if "facts" in vars(kind) and kind.__module__.startswith("lowwater."):
            yield kind


def code_of(place: str) -> str:
    """The code of a module or class, without comments, docstrings and the way in which it is written."""
    name, _, wanted = place.partition("::")
    tree: ast.AST = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    if wanted:
        tree = next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == wanted)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [each for each in body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.dump(tree)


def digest_of(name: str) -> str:
    return sha256("\n".join(map(code_of, CODE[name])).encode()).hexdigest()[:16]


def version_of(name: str) -> int:
    own = {"decoder": DECODER_VERSION, "reader of records": READER_VERSION}
    own |= dict.fromkeys(("functions", "evaluation of slices"), len(revisions.REVISIONS))
    return own.get(name, revisions.version(name))


def now() -> dict[str, list[object]]:
    return {name: [version_of(name), digest_of(name)] for name in sorted(CODE)}


@pytest.mark.parametrize("name", sorted(CODE))
def test_a_change_of_code_is_thought_about(name: str) -> None:
    version, digest = json.loads(WRITTEN.read_text(encoding="utf-8"))[name]
    assert [version_of(name), digest_of(name)] == [version, digest], (
        f"the code of {name} has changed: {', '.join(CODE[name])}. If it gives other rows for some input, write a "
        "revision in lowwater/revisions.py (of the decoder: raise its version). Then, or if all rows are equal: "
        "python -m tests.plan.test_revisions"
    )


def test_every_operator_is_in_the_table() -> None:
    labels = {kind.facts.label for kind in operators()}
    assert labels - OF_PLANS <= CODE.keys()


def test_revisions_name_what_there_is() -> None:
    names = {kind.facts.label for kind in operators()} | {revisions.LFTA}
    names |= {f"function {each.name}" for each in (*CATALOG.functions, *CATALOG.states)}
    names |= {f"aggregate {each.name}" for each in CATALOG.aggregates}
    keys = [revision.key for revision in revisions.REVISIONS]
    assert len(keys) == len({*keys}), "a key names one rule"
    for revision in revisions.REVISIONS:
        assert revision.of and {*revision.of} <= names, revision
        assert "; " not in revision.words, "reasons are joined by it"


@pytest.mark.parametrize(
    ("where", "revised"),
    [
        ("B.srcPort IS NULL AND B.ttl > 5", True),
        ("B.srcPort IS NULL", False),
        ("B.ttl > 5 AND B.len > 60", False),
    ],
)
@pytest.mark.parametrize("items", ["A.time AS t", "A.time AS t, count(*) AS n"])
def test_hours_are_stale_whose_where_found_and_filtered(where: str, revised: bool, items: str) -> None:
    """WHERE without ON: the text of the first is what it was, and what it means is not."""
    group = " GROUP BY A.time" * ("count" in items)
    text = f"SELECT {items} FROM main1.TCP A LEFT JOIN main2.TCP B WHERE A.time = B.time AND {where}{group}"
    (query,) = plan_texts([("q", text)], Links(("main1", "main2"))).queries
    assert ("WHERE without ON of an outer join" in dict(query.parts)) is revised


@pytest.mark.parametrize("condition", ["B.n > 5", "B.n > m", "m > 5"])
def test_the_text_of_a_where_on_a_missing_side_says_which_join_it_is(condition: str) -> None:
    """The papers' keyword filters that side; so the two texts, which are inputs, differ."""
    low = "SELECT tb, count(*) AS n, max(len) AS m FROM main2.TCP GROUP BY time AS tb"
    where = f"WHERE A.time = B.tb AND {condition}"
    sql = f"SELECT A.time AS t FROM main1.TCP A LEFT JOIN low B {where}"
    papers = f"SELECT A.time AS t LEFT_OUTER_JOIN FROM main1.TCP A, low B {where}"
    ours, theirs = (
        plan_texts([("low", low), ("q", text)], Links(("main1", "main2"))).queries[-1] for text in (sql, papers)
    )
    assert dict(ours.parts)["query q"] != dict(theirs.parts)["query q"]


def test_changes_of_decoding_name_what_there_is() -> None:
    for table, newest in ((revisions.DECODINGS, DECODER_VERSION), (revisions.READINGS, READER_VERSION)):
        assert all(version <= newest for version in table), "a version that no code has"
        for change in table.values():
            assert change.link_types <= {*NAMES.values()} and change.what and "; " not in change.what
    assert {*LINKS} == {*NAMES}


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(now(), indent=1) + "\n", encoding="utf-8")
