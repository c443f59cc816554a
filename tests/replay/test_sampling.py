"""DEFINE sample and the budgets of links, through `lowwater run`, beside the rule written out over a file's bytes."""

from __future__ import annotations

import csv
import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from lowwater.config import SECOND
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
    admitted = [(stamp, frame) for stamp, frame in _admitted(records) if frame[23] == 17]
    chances = [_chance(seed, stamp, frame) for stamp, frame in admitted]
    loads = Counter(stamp // SECOND for (stamp, _), chance in zip(admitted, chances, strict=True) if chance < rate)
    groups: Counter[tuple[int, int, float]] = Counter()
    fates: Counter[str] = Counter()
    for (stamp, frame), chance in zip(admitted, chances, strict=True):
        share = rate
        if budget is not None and loads[stamp // SECOND] > budget:
            share *= budget / loads[stamp // SECOND]
        port = int.from_bytes(frame[36:38], "big")
        if chance >= share:
            fates["shed" if chance < rate else "sampled_out"] += 1
        elif port == 9:
            fates["filtered"] += 1
        else:
            fates["accepted"] += 1
            groups[stamp // SECOND // 5, port, share] += 1
    return groups, fates


def _admitted(records: Iterable[Record]) -> Iterator[tuple[int, bytes]]:
    clock = 0
    for stamp, frame, *_ in records:
        clock = max(clock, stamp)
        if clock - stamp <= SKEW:
            yield stamp, frame


def _chance(seed: int, stamp: int, frame: bytes) -> float:
    mixed = int.from_bytes(hashlib.blake2b(f"{seed}\0a".encode(), digest_size=8).digest(), "big")
    for word in (stamp, len(frame), fnv(frame) & WORD):
        mixed ^= word
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
        mixed ^= mixed >> 31
    return (mixed >> 11) / (1 << 53)


ENGINES = ["reference", pytest.param("spark", marks=pytest.mark.spark)]
CASES = [(1.0, 0, None), (0.3, 0, None), (0.3, 7, None), (1.0, 0, 12), (0.6, 3, 9)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("rate", "seed", "budget"), CASES)
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


@pytest.mark.parametrize(
    ("define", "message"),
    [
        ("sample '0';", "sample '0' is no rate"),
        ("sample '1.5';", "sample '1.5' is no rate"),
        ("sample 'x';", "sample 'x' is no rate"),
        ("sample '0.5'; sample_seed '-1';", "sample_seed '-1' is no number"),
    ],
)
def test_what_is_no_rate(tmp_path: Path, define: str, message: str) -> None:
    query = tmp_path / "q.gsql"
    query.write_text(QUERY.format(define=define))
    said = lowwater("check", query)
    assert said.code == 1
    assert message in said.err + said.out
