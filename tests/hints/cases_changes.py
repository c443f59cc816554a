"""Hints of `rollback` and `try`, and of what they are made of: pins, versions, changes of query files and skews."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from lowwater.config import LONGEST_SKEW
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.runs import DONE, PUBLISH, ReplayRow, record_replays
from lowwater.lake.results.exploring import result_table
from lowwater.lake.results.pins import publishing
from lowwater.lake.results.publish import publish
from lowwater.lake.results.streams import fingerprint, stream_files
from lowwater.replay.job import Job
from lowwater.replay.trial import folder_of
from tests.hints.desk import Case, Desk, Site
from tests.lake.support import put_stream
from tests.replay.support import START, Said

WHY = ("--because", "no")
AT = ("--at", "2026-01-01T00:00Z")
STATE = "SELECT tb, srcIP, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb, srcIP CLOSING_WHEN count(*) = 0"


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
        made = publish(lake, "flows", "flows", fields, begin, end, f"{digest}{number}", audited, act)
    facts = {"digest": f"{digest}{number}", "rows": 1, "publication": made.number}
    told = ReplayRow("flows", "flows", begin, end, PUBLISH, DONE, number + hour * 1000, **facts)
    record_replays(lake, [told])


def _twice(desk: Desk) -> Lake:
    """A lake whose first hour was published twice, and whose second hour once, last."""
    lake = open_lake(desk.settle(ingest=False)) if not desk.lake.exists() else open_lake(desk.lake)
    if not lake.table("flows").exists():  # type: ignore[attr-defined]
        for number in (1, 2):
            _publish(lake, number)
        _publish(lake, 3, hour=1)
        _publish(lake, 4, hour=1)
    return lake


def _rollback(desk: Desk, *options: object, at: tuple[str, ...] = AT) -> Said:
    _twice(desk)
    return desk.run("rollback", "flows", "--lake", desk.lake, *at, *options, *WHY)


def _newest(desk: Desk) -> int:
    return result_table(_twice(desk), "flows").newest


def _text_of(desk: Desk, text: str) -> None:
    """Gives the query set another query."""
    (desk.folder / "flows.gsql").write_text(text)


def _renamed(desk: Desk, name: str) -> Said:
    _twice(desk)
    _text_of(
        desk, f"DEFINE {{ query_name '{name}'; }}\nSELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb\n"
    )
    return _rollback(desk, "--to", _newest(desk) - 2)


def _with_state(desk: Desk, text: str) -> Said:
    _twice(desk)
    _text_of(desk, f"DEFINE {{ query_name 'flows'; }}\n{text}\n")
    return _rollback(desk, "--to", _newest(desk) - 2)


def _plan(desk: Desk, *options: object) -> Said:
    if not desk.lake.exists():
        desk.settle()
    return desk.run("plan", "--lake", desk.lake, *options)


def _other_file(desk: Desk, name: str) -> Said:
    text = "DEFINE { query_name 'flows'; }\nSELECT tb, count(*) AS n FROM main1.UDP GROUP BY time/60 AS tb\n"
    return _plan(desk, "--with", desk.write(f"new/{name}.gsql", text))


def _try(desk: Desk, *options: object) -> Said:
    if not desk.lake.exists():
        desk.settle(ingest=False)
    return desk.run("try", *options, "--lake", desk.lake)


def _made(desk: Desk, *options: object) -> Said:
    """Makes the trial `wide`; without captures it has nothing to run."""
    return _try(desk, "wide", "--query-set", "flows", "--skew", "main1=5s", *options)


def _differently(desk: Desk, *changes: object) -> Said:
    _made(desk)
    return _try(desk, "wide", "--query-set", "flows", *changes)


def _drop(desk: Desk, name: str) -> Said:
    _made(desk)
    return _try(desk, name, "--drop")


def _spoiled(desk: Desk) -> Said:
    _made(desk)
    (folder_of(open_lake(desk.lake), "wide") / "trial.json").write_text("[]")  # type: ignore[attr-defined]
    return _try(desk, "wide")


def _elsewhere(desk: Desk) -> Said:
    desk.settle(ingest=False)
    _other_file(desk, "flows")
    said = _try(desk, "wide", "--with", desk.folder / "new" / "flows.gsql")
    assert said.code == 0, said
    return _try(desk, "wide")


def _begun_again(desk: Desk) -> Said:
    folder = Path(folder_of(open_lake(desk.lake), "wide"))
    (folder / "trial.json").unlink()
    return _made(desk)


def _damaged(desk: Desk) -> Said:
    """A roll back whose rows another program removes."""
    assert _rollback(desk, "--to", _newest(desk) - 3).code == 0
    DeltaTable(str(_twice(desk).table("flows"))).delete(f'"_last" = {START}')
    span = ("--from", format_instant(START), "--to", format_instant(START + HOUR))
    return desk.run("replay", "flows", "--lake", desk.lake, "--queries", desk.folder, *span)


CASES = [
    Case(
        "a roll back that is damaged",
        _damaged,
        "roll it back again with `lowwater rollback`",
        lambda desk: _rollback(desk, "--to", _newest(desk) - 1),
    ),
    Case(
        "a roll back to what is there",
        lambda desk: _rollback(desk, "--to", _newest(desk)),
        "name an earlier version",
        lambda desk: _rollback(desk, "--to", _newest(desk) - 3, "--dry-run"),
    ),
    Case(
        "a roll back to before the interval",
        lambda desk: _rollback(desk, "--to", _newest(desk) - 2, at=("--at", "2026-01-01T01:00Z")),
        "name a later version",
        lambda desk: _rollback(desk, "--to", _newest(desk) - 1, at=("--at", "2026-01-01T01:00Z")),
    ),
    Case(
        "a roll back to a time without a version",
        lambda desk: _rollback(desk, "--to", "2020-01-01T00:00Z"),
        "`lowwater history flows` lists the versions",
        lambda desk: desk.run("history", "flows", "--lake", desk.lake),
    ),
    Case(
        "a roll back that is not",
        lambda desk: _rollback(desk, "--lift"),
        "`lowwater status` shows the intervals that are",
        lambda desk: desk.run("status", "--lake", desk.lake),
    ),
    Case(
        "a roll back of a query that is gone",
        lambda desk: _renamed(desk, "others"),
        "add the query again",
        lambda desk: _renamed(desk, "flows"),
    ),
    Case(
        "a roll back of a chain",
        lambda desk: _with_state(desk, STATE),
        "change the query or its settings",
        lambda desk: _with_state(desk, STATE.partition(" CLOSING_WHEN")[0]),
    ),
    Case(
        "a skew of no link",
        lambda desk: _plan(desk, "--skew", "main2=5s"),
        "did you mean main1?",
        lambda desk: _plan(desk, "--skew", "main1=5s"),
    ),
    Case(
        "a skew of a century",
        lambda desk: _plan(desk, "--skew", f"main1={LONGEST_SKEW // 10**9}s"),
        "a skew is below",
        lambda desk: _plan(desk, "--skew", "main1=1h"),
    ),
    Case(
        "a file that replaces none",
        lambda desk: _other_file(desk, "other"),
        "did you mean flows.gsql?",
        lambda desk: _other_file(desk, "flows"),
    ),
    Case(
        "no name of a trial",
        lambda desk: _try(desk, "a b", "--query-set", "flows", "--skew", "main1=5s"),
        "use letters, digits, _ and -",
        lambda desk: _made(desk),
    ),
    Case(
        "no trial",
        lambda desk: _try(desk, "wide"),
        "make it: --query-set NAME",
        lambda desk: _made(desk),
    ),
    Case(
        "another trial of the same name",
        lambda desk: _differently(desk, "--skew", "main1=7s"),
        "drop it, or take another name",
        lambda desk: _drop(desk, "wide"),
    ),
    Case(
        "no trial to drop",
        lambda desk: _drop(desk, "wode"),
        "did you mean wide?",
        lambda desk: _drop(desk, "wide"),
    ),
    Case(
        "a trial of files elsewhere",
        _elsewhere,
        "name what it tries again: --with",
        lambda desk: _try(desk, "wide", "--with", desk.folder / "new" / "flows.gsql"),
    ),
    Case("a trial that is none", _spoiled, "begin the trial again", _begun_again),
]

LEFT: dict[Site, str] = {
    ("lowwater/lake/results/pins.py", "_write"): "a full disk, or a lease that another process took",
    ("lowwater/lake/results/pins.py", "_stored"): "a disk that fails",
    (
        "lowwater/replay/versions.py",
        "RollbackTarget._record",
    ): "the interval is replaced between two looks",
}
