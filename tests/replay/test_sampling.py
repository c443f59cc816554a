"""DEFINE sample and the budgets of links, through `lowwater run`, beside the rule written out over a file's bytes."""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from lowwater.instants import SECOND
from lowwater.lake.layout import open_lake
from tests.breadth import each_push
from tests.capture.test_heads import fnv
from tests.capturemaker import Record, pcap_bytes, tcp, udp
from tests.replay.support import lowwater

BEGIN = 1_200_000 * SECOND
SECONDS = 40
SKEW = SECOND
WORD = (1 << 64) - 1
QUERY = (
    "DEFINE {{ query_name 'taken'; {define} }} "
    "SELECT tb, destPort, count(*) AS n, sum(len) AS bytes, min(sampling_rate) AS rate FROM a.UDP "
    "WHERE destPort <> 9 GROUP BY time/5 AS tb, destPort"
)


def packets(seed: int) -> list[Record]:
    """UDP and TCP at a rate that changes from second to second, out of order, some of it too late."""
    draw = random.Random(seed)
    stamps = [BEGIN + at * SECOND + draw.randrange(SECOND) for at in range(SECONDS) for _ in range(draw.randrange(60))]
    stamps.sort(key=lambda stamp: stamp + draw.randrange(SKEW * 5 // 4) * draw.randrange(2))
    return [(stamp, _frame(draw)) for stamp in stamps]


def _frame(draw: random.Random) -> bytes:
    data = draw.randbytes(draw.randrange(60))
    ends = ("10.0.0.1", "10.0.0.2", draw.randrange(1024, 1100), draw.choice([9, 53, 123]))
    return udp(*ends, data=data) if draw.random() < 0.8 else tcp(*ends, data=data)


def expected(
    records: Iterable[Record], rate: float, seed: int, budget: int | None
) -> tuple[Counter[tuple[int, int, float]], Counter[str]]:
    """(epoch, port, rate) -> packets, and how many packets of UDP had which fate."""
    groups: Counter[tuple[int, int, float]] = Counter()
    fates: Counter[str] = Counter()
    for _, stamp, frame, fate, share in chosen(records, rate, seed, budget):
        port = int.from_bytes(frame[36:38], "big")
        fates["filtered" if fate == "accepted" and port == 9 else fate] += 1
        if fate == "accepted" and port != 9:
            groups[stamp // SECOND // 5, port, share] += 1
    return groups, fates


def chosen(
    records: Iterable[Record], rate: float, seed: int, budget: int | None
) -> Iterator[tuple[int, int, bytes, str, float]]:
    """Of each admitted packet of UDP its number in the file, timestamp, frame, what becomes of it, and the rate."""
    admitted = [(number, stamp, frame) for number, stamp, frame in _admitted(records) if frame[23] == 17]
    chances = [_chance(seed, stamp, frame) for _, stamp, frame in admitted]
    loads = Counter(stamp // SECOND for (_, stamp, _), chance in zip(admitted, chances, strict=True) if chance < rate)
    for (number, stamp, frame), chance in zip(admitted, chances, strict=True):
        share = rate
        if budget is not None and loads[stamp // SECOND] > budget:
            share *= budget / loads[stamp // SECOND]
        fate = "accepted" if chance < share else "shed" if chance < rate else "sampled_out"
        yield number, stamp, frame, fate, share


def _admitted(records: Iterable[Record]) -> Iterator[tuple[int, int, bytes]]:
    clock = 0
    for number, (stamp, frame, *_) in enumerate(records):
        clock = max(clock, stamp)
        if clock - stamp <= SKEW:
            yield number, stamp, frame


def _chance(seed: int, stamp: int, frame: bytes) -> float:
    mixed = int.from_bytes(hashlib.blake2b(f"{seed}\0a".encode(), digest_size=8).digest(), "big")
    for word in (stamp, len(frame), fnv(frame) & WORD):
        mixed ^= word
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
        mixed ^= mixed >> 31
    return (mixed >> 11) / (1 << 53)


ENGINES = ["reference", pytest.param("process", marks=pytest.mark.slow)]
CASES = [(1.0, 0, None), (0.3, 0, None), (0.3, 7, None), (1.0, 0, 12), (0.6, 3, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rate", "seed", "budget"), each_push(CASES, 2))
def test_the_packets_that_are_taken(tmp_path: Path, rate: float, seed: int, budget: int | None, engine: str) -> None:
    records = packets(seed + 1)
    capture, query, links = tmp_path / "a.pcap", tmp_path / "q.gsql", tmp_path / "links.toml"
    capture.write_bytes(pcap_bytes(records, nanoseconds=True))
    query.write_text(QUERY.format(define=f"sample '{rate}'; sample_seed '{seed}';"))
    links.write_text("[links.a]\nsampling = true\n" + (f"shed = {budget}\n" if budget else ""))
    groups, fates = expected(records, rate, seed, budget)
    counts: dict[tuple[int, int], int] = defaultdict(int)
    rates: dict[tuple[int, int], float] = {}
    for (epoch, port, share), count in groups.items():
        counts[epoch, port] += count
        rates[epoch, port] = min(share, rates.get((epoch, port), 1.0))
    for interval in ("1h", "5s") if engine == "reference" else ("7s",):
        out = tmp_path / interval
        said = lowwater(
            *("run", query, "--capture", f"a={capture}", "--out", out, "--engine", engine),
            *("--links", links, "--interval", interval, "--skew", "a=1s"),
        )
        assert said.code == 0, said.err
        with (out / "taken.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {(int(row["tb"]), int(row["destPort"])): int(row["n"]) for row in rows} == counts
        assert {(int(row["tb"]), int(row["destPort"])): float(row["rate"]) for row in rows} == rates
        lftas = json.loads((out / "summary.json").read_text())["queries"]["taken"]["lftas"]
        found = next(iter(lftas.values()))["a"]
        names = ("sampled_out", "shed", "filtered", "accepted")
        assert {name: found[name] for name in names} == {name: fates[name] for name in names}


def test_what_was_not_kept_is_named(tmp_path: Path) -> None:
    lake, capture = tmp_path / "lake", tmp_path / "a.pcap"
    capture.write_bytes(pcap_bytes(packets(1), nanoseconds=True))
    queries = tmp_path / "taken.gsql"
    queries.write_text(QUERY.format(define="sample '0.5';"))
    open_lake(lake)
    assert lowwater("ingest", "--lake", lake, "--link", "a", capture).code == 0
    (lake / "lowwater.toml").write_text(
        f'[query_sets.taken]\nfiles = ["{queries}"]\n[links.a]\nuntil = "1970-01-15T00:00:00Z"\n'
        'since = "1970-01-14T21:20:00Z"\npolicy = "exclude"\n'
    )
    said = lowwater(
        *("replay", "taken", "--lake", lake, "--from", "1970-01-14T21:00:00Z"), "--to", "1970-01-14T22:00:00Z"
    )
    assert said.code == 1
    assert "sampling = true in [links.a]" in said.err


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_shed_is_counted_by_a_window_of_rows(tmp_path: Path, engine: str) -> None:
    """Of two links only one sheds; a second may lie in two intervals by arrival, and is one load all the same."""
    files, query, links = {"a": packets(1), "b": packets(2)}, tmp_path / "q.gsql", tmp_path / "links.toml"
    query.write_text(
        "DEFINE { query_name 'taken'; } SELECT tb, wid, count(*) AS n, min(sampling_rate) AS rate "
        "FROM [a, b].UDP [RANGE 16 ROWS, SLIDE 8 ROWS] GROUP BY time/5 AS tb"
    )
    links.write_text("[links.a]\nsampling = true\nshed = 9\n")
    records = [(arrival, link, at) for link, each in files.items() for at, arrival in enumerate(_arrivals(each))]
    numbers = {(link, at): number for number, (_, link, at) in enumerate(sorted(records))}
    counts: Counter[tuple[int, int]] = Counter()
    for link, budget in (("a", 9), ("b", None)):
        for at, stamp, _, fate, _ in chosen(files[link], 1.0, 0, budget):
            for wid in (numbers[link, at] // 8 - 1, numbers[link, at] // 8) if fate == "accepted" else ():
                counts[stamp // SECOND // 5, wid] += 1
    captures = []
    for link, each in files.items():
        (tmp_path / f"{link}.pcap").write_bytes(pcap_bytes(each, nanoseconds=True))
        captures += ["--capture", f"{link}={tmp_path / link}.pcap"]
    for interval in ("1h", "5s") if engine == "reference" else ("13s",):
        out = tmp_path / interval
        said = lowwater(
            *("run", query, *captures, "--out", out, "--engine", engine, "--links", links, "--interval", interval),
            *("--skew", "a=1s", "--skew", "b=1s"),
        )
        assert said.code == 0, said.err
        with (out / "taken.csv").open() as file:
            assert {(int(row["tb"]), int(row["wid"])): int(row["n"]) for row in csv.DictReader(file)} == counts


def _arrivals(records: Iterable[Record]) -> Iterator[int]:
    return accumulate((stamp for stamp, *_ in records), max)
