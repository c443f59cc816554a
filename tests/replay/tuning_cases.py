"""The golden of `lowwater explain --with-stats`: a lake whose ledger says what four LFTAs did."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from click.testing import CliRunner

from lowwater.catalog.expr import conjuncts, show
from lowwater.cli.main import cli
from lowwater.config import load_config
from lowwater.instants import HOUR, SECOND, parse_instant
from lowwater.lake.layout import HEARTBEATS, OUTCOMES, open_lake
from lowwater.lake.ledgers.runs import record_heartbeats
from lowwater.low.runtime.statistics import shape
from lowwater.plan.operators import Lfta
from lowwater.plan.queryset import plan_files
from lowwater.replay.names import lake_links

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tuning.txt"
START = parse_instant("2026-01-01T00:00:00Z")
MINUTE = 60 * SECOND
SETTINGS = '[links.main1]\nskew = "2s"\n[links.main2]\nskew = "500ms"\n[sets]\nboth = ["main1", "main2"]\n'
QUERIES = """
DEFINE { query_name 'crowded'; aggregate_slots '1024'; }
SELECT tb, srcIP, count(*) AS cnt FROM [both].TCP GROUP BY time/60 AS tb, srcIP;

DEFINE { query_name 'ordered'; }
SELECT tb, count(*) AS cnt FROM main1.TCP
WHERE destPort = 80 AND srcIP <> IP_VAL'10.0.0.1' AND destIP = IP_VAL'10.0.0.2'
AND (len/ttl > 2 OR srcIP = destIP) GROUP BY time/10 AS tb;

DEFINE { query_name 'chosen'; }
SELECT time, srcIP FROM main2.TCP WHERE SYN AND destIP <> IP_VAL'10.0.0.2';

DEFINE { query_name 'unseen'; }
SELECT time, destIP FROM main2.UDP;
"""
COUNTS: dict[str, dict[str, Any]] = {
    "crowded": {"rows_out": 9000, "collisions": 4000, "ejections": 4000, "groups": 900, "slots": 1024},
    "ordered": {"rows_out": 6, "groups": 1, "slots": 16384, "beat_nanoseconds": 1_500_000},
    "chosen": {"rows_out": 80_000, "beat_nanoseconds": 90_000, "period": 10 * SECOND},
}
"""Of each minute; `unseen` has none."""

TRUE = {"crowded": (), "ordered": (1600, 1500, 40, 900), "chosen": (2000, 30)}
"""Of how many of 3,200 drawn records each conjunct is true; of `chosen` too few came to its second."""


def row(lfta: Lfta, link: str, minute: int) -> dict[str, Any]:
    """A row of the ledger."""
    start = START + minute * MINUTE
    parts = [show(part) for part in conjuncts(lfta.predicate)]
    met = list(TRUE[lfta.name])
    asked = [3200] * len(met) if lfta.name == "ordered" else [3200, 40][: len(met)]
    rest = {"not_of_protocol": 10_000, "filtered": 10_000, "accepted": 80_000, "records": 101_000, "sane": 100_000}
    rest |= {"nanoseconds": 5_000_000, "beat_nanoseconds": 20_000, "collisions": 0, "ejections": 0, "punctuations": 6}
    drawn = {"conjuncts": parts, "asked": asked, "met": met, "shape": shape(lfta), "period": SECOND}
    named = {"lfta": lfta.name, "link": link, "start": start, "end": start + MINUTE}
    return {**dict.fromkeys(OUTCOMES, 0), **rest, **drawn, **named, **COUNTS[lfta.name]}


def make_lake(folder: Path) -> tuple[Path, Path]:
    """A lake and a query file."""
    lake, file = folder / "lake", folder / "tuned.gsql"
    opened = open_lake(lake)
    (lake / "lowwater.toml").write_text(SETTINGS)
    file.write_text(QUERIES)
    plan = plan_files([file], lake_links(load_config(lake), opened))
    rows = [
        row(lfta, link, minute)
        for lfta in plan.lftas
        for link in lfta.links
        for minute in range(2)
        if lfta.name in COUNTS
    ]
    schema = pa.schema([each for each in HEARTBEATS if each.name != "query_set"])
    record_heartbeats(opened, "s", START, START + HOUR, pa.Table.from_pylist(rows, schema=schema))
    return lake, file


def told(lake: Path, file: Path, *more: str) -> str:
    """What the command prints."""
    return CliRunner().invoke(cli, ["explain", "--with-stats", "--lake", str(lake), *more, str(file)]).output


def main() -> None:
    """Rewrites the golden."""
    with tempfile.TemporaryDirectory() as folder:
        GOLDEN.write_text(told(*make_lake(Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()
