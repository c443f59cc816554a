"""Hints of programs that read a lake with `from lowwater import Lake`, and of queries that are tried."""

from __future__ import annotations

from lowwater_notebook import Rows

from lowwater import Lake
from lowwater.replay.preview import Limits, PreviewRequest, preview_text, run_preview
from tests.hints.desk import SPAN, Case, Desk, tried
from tests.replay.support import START

SECOND = 1_000_000_000


def _lake(desk: Desk) -> Lake:
    if not desk.lake.exists():
        desk.settle()
    return Lake(desk.lake)


def _records(desk: Desk) -> Lake:
    """A lake with one link, of CSV."""
    if not desk.lake.exists():
        desk.lake.mkdir()
        schema = desk.write("web.gsql", "PROTOCOL WEB { uint sec get_csv_uint (increasing, unit s); }\n")
        settings = f'[links.web]\nkind = "csv"\nprotocol = "WEB"\nschemas = ["{schema}"]\nskew = "1s"\n'
        desk.write("lake/lowwater.toml", settings)
        file = desk.write("web.csv", "sec\n1767225600\n")
        said = desk.run("ingest", "--lake", desk.lake, "--link", "web", file)
        assert said.code == 0, said
    return Lake(desk.lake)


def _packets(desk: Desk, link: str = "main1", *, start: object = None, end: object = None, column: str = "len") -> None:
    assert _lake(desk).packets(link, start, end, columns=[column]).count()  # type: ignore[arg-type]


def _rows(desk: Desk) -> Rows:
    return _lake(desk).packets("main1", columns=["len"])


def _frame(desk: Desk, absent: bool) -> None:
    """A frame where polars is installed, or can be found by nobody."""
    import lowwater_notebook as rows

    found = rows.find_spec
    if absent:
        rows.find_spec = lambda name: None  # type: ignore[assignment]
    try:
        assert _rows(desk).polars().height
    finally:
        rows.find_spec = found


def _unmeasured(desk: Desk, mended: bool) -> None:
    """A ledger that the lake does not have."""
    if mended:
        assert desk.run("backfill", "--lake", desk.lake).code in (0, 1)
    else:
        desk.settle()
    Lake(desk.lake).ledger("measures/links").count()


def _preview(desk: Desk, hour: int = 0, limits: Limits | None = None) -> None:
    _lake(desk)
    start = START + hour * 3600 * SECOND
    request = PreviewRequest(str(desk.lake), "SELECT time FROM main1.ETH", "", ("main1",), start, start + SPAN * SECOND)
    assert (preview_text(request) if limits is None else run_preview(request, limits)).packets


CASES: list[Case] = [
    Case(
        "packets of a link of records",
        lambda desk: _records(desk).packets("web") and None,
        "records('web')",
        lambda desk: None if _records(desk).records("web").count() == 1 else desk.run("no record"),
    ),
    Case(
        "records of a link of packets",
        lambda desk: _lake(desk).records("main1") and None,
        "packets('main1')",
        lambda desk: _packets(desk),
    ),
    Case(
        "no ledger",
        lambda desk: _lake(desk).ledger("capture") and None,
        "did you mean captures?",
        lambda desk: None if _lake(desk).ledger("captures").count() else desk.run("no capture"),
    ),
    tried("a ledger before the first audit", _unmeasured, "run an interval", False, True),
    tried("a link for programs that is not there", _packets, "did you mean main1?", "main2", "main1"),
    tried(
        "a range that ends before it begins",
        _packets,
        "give an `end` after `start`",
        {"start": START + SECOND, "end": START},
        {"start": START, "end": START + SPAN * SECOND},
    ),
    tried("no instant for programs", _packets, "or give ns since the epoch", {"start": "yesterday"}, {"start": START}),
    tried("no column of packets", _packets, "did you mean len?", {"column": "lenn"}, {"column": "len"}),
    tried("a frame without its package", _frame, "pip install polars", True, False),
    tried("a preview without packets", _preview, "choose another hour", 9, ()),
    tried(
        "a preview that takes too much",
        _preview,
        "choose a shorter range, or make the query smaller",
        {"limits": Limits(megabytes=20)},
        {"limits": Limits(seconds=120)},
    ),
]
