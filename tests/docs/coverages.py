"""What settings and files do to intervals, states and accounts."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowwater.config import load_config
from lowwater.instants import HOUR
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import malformed_between
from lowwater.lake.ledgers.missing import outside
from lowwater.lake.packets import PacketFiles
from lowwater.replay.job import Job
from lowwater.replay.schedule.due import DueSelection, due
from tests.lake.support import BASE, at, capture

PAGE = Path(__file__).resolve().parents[2] / "docs" / "captures.md"
MARKED = re.compile(r"(<!-- coverage -->\n)(.*?)(<!-- end -->)", re.DOTALL)
QUERY = "DEFINE { query_name n; } SELECT tb, count(*) FROM a.ETH GROUP BY time/60 AS tb\n"
HOURLY = {"captures": "a-%Y%m%d%H.pcap", "rotation": "1h"}
FIRST = 8
"""The hour of BASE."""


@dataclass(frozen=True)
class File:
    """A capture: its records, as minutes after 08:00, and what is said of it."""

    name: str
    minutes: tuple[float, ...]
    cut: int = 0
    growing: bool = False
    covers: tuple[float, float] | None = None


@dataclass(frozen=True)
class Case:
    """Files and settings of one link, whose skew is 1 s."""

    files: tuple[File, ...]
    link: Mapping[str, str] = field(default_factory=dict)
    through_end: bool = False


EIGHT, NINE = File("a-2027011508.pcap", (1, 59)), File("a-2027011509.pcap", (61, 119))
CUT, PART = replace(EIGHT, cut=5, minutes=(1, 30, 59)), File("a.pcap", (52, 70, 98))
RESTARTED = (File("a-202701150800.pcap", (1, 9)), File("a-202701150820.pcap", (21, 59, 79)))
MINUTES = {"captures": "a-%Y%m%d%H%M.pcap", "rotation": "1h"}
CASES: dict[str, Case] = {
    "files of whole hours, `rotation`": Case((EIGHT, NINE), HOURLY),
    "no `rotation`": Case((PART,)),
    "no `rotation`, `--through-end`": Case((PART,), through_end=True),
    "no `rotation`, policy `publish`": Case((PART,), {"policy": "publish"}),
    "`since` 08:52, `until` 09:38:01": Case((PART,), {"since": "2027-01-15T08:52Z", "until": "2027-01-15T09:38:01Z"}),
    "`since` 09:00, behind the first record": Case((PART,),
                                                   {"since": "2027-01-15T09:00Z", "until": "2027-01-15T10:00Z"}),
    "`since` 08:52, `until` 09:50": Case((PART,), {"since": "2027-01-15T08:52Z", "until": "2027-01-15T09:50Z"}),
    "`since` 08:00, `until` 09:00, before the last record": Case(
        (PART,), {"since": "2027-01-15T08:00Z", "until": "2027-01-15T09:00Z"},
    ),
    "`--covers` 08:00/10:00": Case((replace(PART, covers=(0, 120)),)),
    "`--covers` 09:00/10:00, less than it holds": Case((replace(PART, covers=(60, 120)),)),
    "a file begins before the hour in its name by less than the skew": Case(
        (EIGHT, replace(NINE, minutes=(59.995, 61, 119))), HOURLY,
    ),
    "the only file begins before the hour in its name": Case((replace(NINE, minutes=(59, 61, 119)),), HOURLY),
    "a file runs over its rotation by less than the skew": Case((replace(EIGHT, minutes=(1, 59, 60.01)), NINE), HOURLY),
    "a file runs over its rotation by more": Case((replace(EIGHT, minutes=(1, 59, 60.5)), NINE), HOURLY),
    "the last file runs over its rotation": Case((EIGHT, replace(NINE, minutes=(61, 119, 121))), HOURLY),
    "wrong `timezone`, an hour off": Case((EIGHT, NINE), {**HOURLY, "timezone": "Europe/Berlin"}),
    "a file of another day under the name of the hour": Case(  # of a few records, each may be a stray one (T3)
        (EIGHT, replace(NINE, minutes=tuple(1501 + 3 * number for number in range(20)))), HOURLY,
    ),
    "a file in between is missing": Case((EIGHT, File("a-2027011510.pcap", (121,))), HOURLY),
    "a file in between is missing, `--through-end`": Case((EIGHT, File("a-2027011510.pcap", (121,))), HOURLY,
                                                          through_end=True),
    "a pause of 1 s between two files": Case((File("a1.pcap", (0, 30)), File("a2.pcap", (30 + 1 / 60, 60)))),
    "a pause of 3 s between two files": Case((File("a1.pcap", (0, 30)), File("a2.pcap", (30 + 3 / 60, 60)))),
    "the same, `gap_tolerance` 5s": Case((File("a1.pcap", (0, 30)), File("a2.pcap", (30 + 3 / 60, 60))),
                                         {"gap_tolerance": "5s"}),
    "a recorder stops at 08:10 and starts again at 08:20, `rotation`": Case(RESTARTED, MINUTES),
    "the same, policy `publish`": Case(RESTARTED, {**MINUTES, "policy": "publish"}),
    "the same, `--through-end`": Case(RESTARTED, MINUTES, through_end=True),
    "a file is cut": Case((CUT, NINE), HOURLY),
    "the last file is growing": Case((EIGHT, replace(NINE, growing=True)), HOURLY),
    "an empty file": Case((EIGHT, replace(NINE, minutes=())), HOURLY),
}  # fmt: skip


def outcome(case: Case) -> tuple[str, str, int, int]:
    """Intervals with state and records; what lies outside; records in the accounts of intervals, and of the files."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "lake"
        root.mkdir()
        (root / "n.gsql").write_text(QUERY)
        lines = ["[query_sets.n]", 'files = ["n.gsql"]', "[links.a]"]
        lines += [f'{key} = "{value}"' for key, value in case.link.items()]
        (root / "lowwater.toml").write_text("\n".join(lines) + "\n")
        lake, config = open_lake(root), load_config(root)
        for each in case.files:
            path = capture(root / each.name, [minute * 60 for minute in each.minutes], each.cut)
            covers = (at(each.covers[0] * 60), at(each.covers[1] * 60)) if each.covers else None
            ingest(lake, "a", [path], config, covers, growing=each.growing)
        return _accounts(replace(Job.open(root, "n", root), through_end=case.through_end))


def _accounts(job: Job) -> tuple[str, str, int, int]:
    captures = job.captures()
    mine, link = captures["a"], job.config.link("a")
    files = PacketFiles.of(job.lake)
    said, total = [], 0
    for each in due(job, DueSelection()):
        inputs = job.inputs(each.start, each.end, captures)
        scan = inputs.scan("a")
        apart = sum(count.unread for _, count in outside(files, "a", mine, link, each.start, each.end))
        broken = malformed_between(job.lake, "a", mine, each.start, each.end).num_rows
        records = scan.sane + scan.violations.num_rows + apart + broken
        total += records
        state = "not run" if each.blocked else inputs.state(inputs.gaps())[0]
        said.append(f"{_hour(each.start)} {state} {records}")
    counts = [count for _, count in outside(files, "a", mine, link)]
    numbers = {name: sum(getattr(count, name) for count in counts) for name in ("unread", "uncovered")}
    kinds = {"unread": "outside", "uncovered": "uncovered"}
    apart_text = ", ".join(f"{kinds[name]} {number}" for name, number in numbers.items() if number)
    return ", ".join(_runs(said)), apart_text, total, sum(row.packets + row.malformed for row in mine)


def _runs(said: list[str]) -> list[str]:
    """The intervals, those of a long row of equal ones by the first and the last."""
    found: list[list[str]] = []
    for text in said:
        if found and found[-1][-1].partition(" ")[2] == text.partition(" ")[2]:
            found[-1].append(text)
        else:
            found.append([text])
    return [f"{each[0].partition(' ')[0]} to {each[-1]} each" if len(each) > 1 else each[0] for each in found]


def _hour(start: int) -> str:
    days, hour = divmod((start - BASE) // HOUR + FIRST, 24)
    return f"{hour:02}:00" + (f" +{days}d" if days else "")


def table() -> str:
    """The rows of the table."""
    lines = ["| of a link with skew 1 s | intervals, their state and their records | of these |", "| --- | --- | --- |"]
    for name, case in CASES.items():
        intervals, apart, counted, held = outcome(case)
        assert counted == held, (name, counted, held)
        lines.append(f"| {name} | {intervals} | {apart} |")
    return "\n".join(lines) + "\n"


def rewritten(text: str) -> str:
    """The page with the table as it is now."""
    return MARKED.sub(lambda found: found[1] + table() + found[3], text)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
