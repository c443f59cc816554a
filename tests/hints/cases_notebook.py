"""Hints of programs that read a lake with `from lowwater import Lake`, and of queries that are tried."""

from __future__ import annotations

from lowwater_notebook import Rows

from lowwater import Lake
from lowwater.replay.preview import Limits, PreviewRequest, preview_text, run_preview
from tests.hints.setup import SPAN, Case, Setup, tried
from tests.replay.support import START

SECOND = 1_000_000_000


def _lake(setup: Setup) -> Lake:
    if not setup.lake.exists():
        setup.settle()
    return Lake(setup.lake)


def _records(setup: Setup) -> Lake:
    """A lake with one link, of CSV."""
    if not setup.lake.exists():
        setup.lake.mkdir()
        schema = setup.write("web.gsql", "PROTOCOL WEB { uint sec get_csv_uint (increasing, unit s); }\n")
        settings = f'[links.web]\nkind = "csv"\nprotocol = "WEB"\nschemas = ["{schema}"]\nskew = "1s"\n'
        setup.write("lake/lowwater.toml", settings)
        file = setup.write("web.csv", "sec\n1767225600\n")
        said = setup.run("ingest", "--lake", setup.lake, "--link", "web", file)
        assert said.code == 0, said
    return Lake(setup.lake)


def _packets(
    setup: Setup, link: str = "main1", *, start: object = None, end: object = None, column: str = "len"
) -> None:
    assert _lake(setup).packets(link, start, end, columns=[column]).count()  # type: ignore[arg-type]


def _rows(setup: Setup) -> Rows:
    return _lake(setup).packets("main1", columns=["len"])


def _frame(setup: Setup, absent: bool) -> None:
    """A frame where polars is installed, or can be found by nobody."""
    import lowwater_notebook as rows

    found = rows.find_spec
    if absent:
        rows.find_spec = lambda name: None  # type: ignore[assignment]
    try:
        assert _rows(setup).polars().height
    finally:
        rows.find_spec = found


def _unmeasured(setup: Setup, mended: bool) -> None:
    """A ledger that the lake does not have."""
    if mended:
        assert setup.run("backfill", "--lake", setup.lake).code in (0, 1)
    else:
        setup.settle()
    Lake(setup.lake).ledger("measures/links").count()


def _preview(setup: Setup, hour: int = 0, limits: Limits | None = None) -> None:
    _lake(setup)
    start = START + hour * 3600 * SECOND
    request = PreviewRequest(
        str(setup.lake), "SELECT time FROM main1.ETH", "", ("main1",), start, start + SPAN * SECOND
    )
    assert (preview_text(request) if limits is None else run_preview(request, limits)).packets


CASES: list[Case] = [
    Case("packets of a link of records", lambda setup: _records(setup).packets("web") and None, "records('web')",
         lambda setup: None if _records(setup).records("web").count() == 1 else setup.run("no record")),
    Case("records of a link of packets", lambda setup: _lake(setup).records("main1") and None, "packets('main1')",
         lambda setup: _packets(setup)),
    Case("no ledger", lambda setup: _lake(setup).ledger("content") and None, "did you mean contents?",
         lambda setup: None if _lake(setup).ledger("contents").count() else setup.run("no capture")),
    tried("a ledger before the first audit", _unmeasured, "run an interval", False, True),
    tried("a link for programs that is not there", _packets, "did you mean main1?", "main2", "main1"),
    tried("a range that ends before it begins", _packets, "give an `end` after `start`",
          {"start": START + SECOND, "end": START}, {"start": START, "end": START + SPAN * SECOND}),
    tried("no instant for programs", _packets, "or give ns since the epoch", {"start": "yesterday"}, {"start": START}),
    tried("no column of packets", _packets, "did you mean len?", {"column": "lenn"}, {"column": "len"}),
    tried("a frame without its package", _frame, "pip install polars", True, False),
    tried("a preview without packets", _preview, "choose another hour", 9, ()),
    tried("a preview that takes too much", _preview, "choose a shorter range, or make the query smaller",
          {"limits": Limits(megabytes=20)}, {"limits": Limits(seconds=120)}),
]  # fmt: skip
