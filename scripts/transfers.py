"""Bank transfers that arrive out of order: is the total of all balances zero in every row that is published?

The test of "Internal consistency in streaming systems" (2021), written from its description: transfers of 1 between 10
accounts over 60 seconds, each late by up to 10 seconds, by default ten million. `python scripts/transfers.py` writes
them to a file, ingests it once, and evaluates `examples/transfers/transfers.gsql` in intervals of several lengths with
several heartbeats. Ends with 1 if a total is not zero or a balance is not the exact one. `--file` keeps the transfers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lowwater.config import Config, Link
from lowwater.high.process import InProcess
from lowwater.high.runner import Runner
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.record_options import planned_options
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import Captures, read_captures
from lowwater.low import Policy
from lowwater.plan.context import Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.progress import Progress
from lowwater.replay.run_command import RunRequest, RunResults, run_intervals

QUERIES = Path(__file__).resolve().parents[1] / "examples" / "transfers" / "transfers.gsql"
LINK, ACCOUNTS, SECONDS = "bank", 10, 60
SECOND, MS = 1_000_000_000, 1_000_000
BEGIN = 1_609_459_200
"""First second of the transfers: 2021-01-01."""

DISORDER = 10 * SECOND


@dataclass(frozen=True)
class Way:
    """How the transfers are evaluated; none of it may change a row.

    Attributes:
        engine: reference or process.
        interval: length of the intervals, ns; None for one.
        period: of the heartbeats, ns.
        policy: when heartbeats are made.
        order: seed of the order in which the intervals run; None for the order of time.
        skew: bound of the disorder, ns; later transfers are refused.
    """

    engine: str = "process"
    interval: int | None = None
    period: int = SECOND
    policy: Policy = Policy.PERIODIC
    order: int | None = None
    skew: int = DISORDER

    def __str__(self) -> str:
        interval = "all" if self.interval is None else f"{self.interval / SECOND:g} s"
        beat = f"{self.period / SECOND:g} s" if self.policy == Policy.PERIODIC else str(self.policy)
        order = "" if self.order is None else ", shuffled"
        return f"{self.engine}, intervals of {interval}{order}, heartbeats {beat}"


@dataclass
class Verdict:
    """What was published in a way.

    Attributes:
        totals: rows of the total.
        wrong: rows whose total is not zero.
        balances: rows of balances.
        exact: whether there is a total for each second, and the balances are the exact ones.
        seconds: wall clock of the evaluation.
    """

    totals: int
    wrong: int
    balances: int
    exact: bool
    seconds: float

    @property
    def consistent(self) -> bool:
        return self.exact and not self.wrong


def transfers(count: int, seed: int) -> pa.Table:
    """Random transfers in the order in which they arrive.

    Args:
        count: how many.
        seed: of everything that is random.
    """
    random = np.random.default_rng(seed)
    number = np.arange(count)
    second = number * SECONDS // max(count, 1)
    arrived = np.argsort(second + random.uniform(0, DISORDER / SECOND, count), kind="stable")
    columns = {
        "id": number,
        "at_ms": (BEGIN + second) * 1000,
        "from_account": random.integers(0, ACCOUNTS, count),
        "to_account": random.integers(0, ACCOUNTS, count),
        "amount": np.ones(count, np.int64),
    }
    return pa.table({name: pa.array(values[arrived]) for name, values in columns.items()})


def exact(table: pa.Table, skew: int = DISORDER) -> dict[tuple[int, int], int]:
    """The balance of each (second, account) that transfers name; those that are late by more than `skew` ns aside."""
    times = table["at_ms"].to_numpy()
    table = table.filter(pa.array(np.maximum.accumulate(times) - times <= skew // MS))
    second = table["at_ms"].to_numpy() // 1000 - BEGIN
    sums = np.zeros(SECONDS * ACCOUNTS, np.int64)
    named = np.zeros(SECONDS * ACCOUNTS, bool)
    for account, sign in (("to_account", 1), ("from_account", -1)):
        places = second * ACCOUNTS + table[account].to_numpy()
        sums += sign * np.bincount(places, table["amount"].to_numpy(), SECONDS * ACCOUNTS).astype(np.int64)
        named[places] = True
    return {(BEGIN + int(at) // ACCOUNTS, int(at) % ACCOUNTS): int(sums[at]) for at in np.flatnonzero(named)}


def plan(kind: str) -> Plan:
    """The plan of the queries over a link of csv or parquet."""
    return plan_texts([(QUERIES.name, QUERIES.read_text(encoding="utf-8"))], Links((LINK,), kinds={LINK: kind}))


def config_of(kind: str, skew: int = DISORDER) -> Config:
    """The settings of the link."""
    return Config(links={LINK: Link().model_copy(update={"kind": kind, "skew": skew})})


def write(table: pa.Table, path: Path) -> None:
    """Writes transfers as csv or parquet, by the name of the file."""
    (pyarrow.csv.write_csv if path.suffix == ".csv" else pyarrow.parquet.write_table)(table, path)


@contextmanager
def lake_of(path: Path, kind: str) -> Iterator[tuple[Lake, dict[str, Captures]]]:
    """A lake with a file of transfers, and its ledger."""
    with tempfile.TemporaryDirectory(prefix="lowwater-transfers-") as folder:
        lake, config = open_lake(Path(folder) / "lake"), config_of(kind)
        ingest(lake, LINK, [path], config, records=planned_options(config, plan(kind), LINK))
        yield lake, read_captures(lake, (LINK,))


def judged(
    made: tuple[Lake, dict[str, Captures]],
    kind: str,
    way: Way,
    balances: dict[tuple[int, int], int],
    runner: Runner | None = None,
) -> Verdict:
    """Evaluates the queries in a way and judges every row.

    Args:
        made: a lake and its ledger.
        kind: of the link.
        way: engine, intervals, heartbeats.
        balances: the exact ones.
        runner: does the work; None for the reference engine.
    """
    lake, captures = made
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        request = RunRequest(
            plan(kind),
            config_of(kind, way.skew),
            [],
            Path(folder) / "out",
            period=way.period,
            policy=way.policy,
            engine=way.engine,
            interval=way.interval,
            order=way.order,
        )
        gathered = run_intervals(request, lake, captures, Path(folder), Progress(quiet=True), runner)
    seconds = time.monotonic() - began
    totals = list(_rows(gathered, "total"))
    published = sorted(((second, account), balance) for second, account, balance in _rows(gathered, "balances"))
    same = published == sorted(balances.items()) and len(totals) == len({second for second, _ in balances})
    return Verdict(len(totals), sum(total != 0 for _, total, _ in totals), len(published), same, seconds)


def _rows(gathered: RunResults, query: str) -> Iterator[tuple[int, ...]]:
    for table in gathered.rows[query]:
        yield from zip(*(table.column(number).to_pylist() for number in range(3)), strict=True)


WAYS = (
    Way(),
    Way(interval=60 * SECOND),
    Way(interval=13 * SECOND, period=100 * MS),
    Way(interval=7 * SECOND, period=10 * SECOND),
    Way(interval=SECOND),
    Way(interval=5 * SECOND, policy=Policy.NONE, order=1),
    Way(interval=20 * SECOND, policy=Policy.DATA_DRIVEN),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluates transfers in several ways; 1 if a row of one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000_000, help="transfers")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--file", type=Path, help="where the transfers are written, .csv or .parquet")
    parser.add_argument("--engine", choices=("process", "reference"), default="process")
    parser.add_argument("--ways", type=int, default=len(WAYS), help="so many of the ways")
    options = parser.parse_args(arguments)
    runner = InProcess() if options.engine == "process" else None
    with tempfile.TemporaryDirectory(prefix="lowwater-transfers-") as folder:
        path = options.file or Path(folder) / "transfers.csv"
        table = transfers(options.count, options.seed)
        balances, kind = exact(table), path.suffix.removeprefix(".")
        write(table, path)
        began, bad = time.monotonic(), 0
        with lake_of(path, kind) as made:
            rate = options.count / (time.monotonic() - began)
            size = path.stat().st_size
            print(f"{options.count:,} transfers in {size:,} bytes; ingest {rate:,.0f} records/s", flush=True)
            for way in (replace(way, engine=options.engine) for way in WAYS[: options.ways]):
                verdict = judged(made, kind, way, balances, runner)
                bad += not verdict.consistent
                word = "exact" if verdict.exact else "WRONG"
                print(
                    f"{way}: {verdict.totals} totals, {verdict.wrong} not zero; {verdict.balances} balances, {word}; "
                    f"{verdict.seconds:.1f} s, {options.count / verdict.seconds:,.0f} records/s",
                    flush=True,
                )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
