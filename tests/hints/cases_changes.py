"""Hints of `rollback` and `try`, and of what they are made of: pins, versions, changes of query files and skews."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import PUBLISH, ReplayRow, record_replays
from lowwater.lake.results.exploring import result_table
from lowwater.lake.results.pins import publishing
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.lake.words import DONE
from lowwater.replay.job import Job
from lowwater.replay.trial import folder_of
from tests.hints.setup import Case, Setup, tried
from tests.lake.support import publish_interval, put_stream
from tests.replay.support import START, Said

WHY = ("--because", "no")
AT = ("--at", "2026-01-01T00:00Z")


def _publish(lake: Lake, number: int, hour: int = 0, digest: str = "d") -> None:
    """Publishes one row of an hour of the query `flows`, with its row in the ledger."""
    fields = Job.open(lake.root, "flows", Path("queries")).plan.queries[0].high.fields
    begin, end = START + hour * HOUR, START + (hour + 1) * HOUR
    row = {"tb": begin // (60 * 10**9), "n": number, "_last": begin, "_kind": "row"}
    close = {"tb": None, "n": None, "_last": end, "_kind": "punctuation"}
    rows = [{**each, "_tick": each["_last"], "_until": each["_last"], "_period": 0} for each in (row, close)]
    put_stream(lake.stream("flows"), fields, begin, end, pa.Table.from_pylist(rows), "flows")
    audited = fingerprint(stream_files(lake.stream("flows"), begin, end))
    with publishing(lake, "flows", ["flows"]) as act:
        made = publish_interval(lake, "flows", "flows", fields, begin, end, f"{digest}{number}", audited, act)
    facts = {"digest": f"{digest}{number}", "rows": 1, "publication": made.number}
    told = ReplayRow("flows", "flows", begin, end, PUBLISH, DONE, number + hour * 1000, **facts)
    record_replays(lake, [told])


def _twice(setup: Setup) -> Lake:
    """A lake whose first hour was published twice, and whose second hour once, last."""
    lake = open_lake(setup.settle(ingest=False)) if not setup.lake.exists() else open_lake(setup.lake)
    if not lake.table("flows").exists():  # type: ignore[attr-defined]
        for number in (1, 2):
            _publish(lake, number)
        _publish(lake, 3, hour=1)
        _publish(lake, 4, hour=1)
    return lake


def _rollback(setup: Setup, *options: object, at: tuple[str, ...] = AT) -> Said:
    _twice(setup)
    return setup.run("rollback", "flows", "--lake", setup.lake, *at, *options, *WHY)


def _newest(setup: Setup) -> int:
    return result_table(_twice(setup), "flows").newest


def _text_of(setup: Setup, text: str) -> None:
    """Gives the query set another query."""
    (setup.folder / "flows.gsql").write_text(text)


def _renamed(setup: Setup, name: str) -> Said:
    _twice(setup)
    _text_of(
        setup, f"DEFINE {{ query_name '{name}'; }}\nSELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb\n"
    )
    return _rollback(setup, "--to", _newest(setup) - 2)


def _try(setup: Setup, *options: object) -> Said:
    if not setup.lake.exists():
        setup.settle(ingest=False)
    return setup.run("try", *options, "--lake", setup.lake)


def _made(setup: Setup, *options: object) -> Said:
    """Makes the trial `wide`; without captures it has nothing to run."""
    return _try(setup, "wide", "--query-set", "flows", "--skew", "main1=5s", *options)


def _spoiled(setup: Setup) -> Said:
    _made(setup)
    (folder_of(open_lake(setup.lake), "wide") / "trial.json").write_text("[]")  # type: ignore[attr-defined]
    return _try(setup, "wide")


def _begun_again(setup: Setup) -> Said:
    folder = Path(folder_of(open_lake(setup.lake), "wide"))
    (folder / "trial.json").unlink()
    return _made(setup)


def _damaged(setup: Setup) -> Said:
    """A roll back whose rows another program removes."""
    assert _rollback(setup, "--to", _newest(setup) - 3).code == 0
    DeltaTable(str(_twice(setup).table("flows"))).delete(f'"_last" = {START}')
    span = ("--from", format_instant(START), "--to", format_instant(START + HOUR))
    return setup.run("replay", "flows", "--lake", setup.lake, "--queries", setup.folder, *span)


def _version(setup: Setup, version: int) -> None:
    """A version of a table whose first file was removed."""
    lake = _twice(setup)
    table = lake.table("flows")
    for name in set(DeltaTable(str(table), version=1).file_uris()) - set(DeltaTable(str(table)).file_uris()):
        Path(name).unlink(missing_ok=True)
    assert result_table(lake, "flows", version).columns


CASES: list[Case] = [
    tried("rows of files that are gone", _version, "newer version", 1, 4),
    Case("a roll back that is damaged", _damaged, "roll it back again with `lowwater rollback`",
         lambda setup: _rollback(setup, "--to", _newest(setup) - 1)),
    Case("a roll back to what is there", lambda setup: _rollback(setup, "--to", _newest(setup)),
         "name an earlier version", lambda setup: _rollback(setup, "--to", _newest(setup) - 3, "--dry-run")),
    tried("a roll back of a query that is gone", _renamed, "add the query again", "others", "flows"),
    Case("a trial that is none", _spoiled, "begin the trial again", _begun_again),
]  # fmt: skip
