"""The query files of the repository that mean something, with what they name."""

from __future__ import annotations

import tomllib
from pathlib import Path

from lowwater.plan.context import Links
from tests.plan import golden

ROOT = Path(__file__).resolve().parents[2]
REFUSED = ("004-duplicates", "conversations")
"""A running aggregate without CLOSING_WHEN; OVER with an analysis of segments, which the batch evaluation of these
tests has not: tests/law/segments.py has another oracle."""

WRITTEN = ("flows_merge", "flows_outer_join", "hostnames", "merge_two_links", "tcp_sources")
"""The texts of the parser's tests that name columns and links."""

READABLE = [
    *(path for path in sorted((ROOT / "queries").rglob("*.gsql")) if path.stem not in REFUSED),
    *(ROOT / "tests" / "golden" / "gsql" / f"{name}.gsql" for name in WRITTEN),
]
DECLARED = golden.context()


def _links() -> Links:
    read = tomllib.loads((ROOT / "queries" / "seeds" / "links.toml").read_text(encoding="utf-8"))
    return Links(tuple(sorted({*read["links"], "main2"})), {k: tuple(v) for k, v in read["sets"].items()})


QUERY_LINKS = _links()
