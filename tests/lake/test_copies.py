"""Copies of packets in a lake beside a self join over all frames, for any files, order of ingest, chunks, intervals."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lowwater.lake.ingestion.batch as batches
import lowwater.lake.packets as module
from lowwater.catalog.time import Skews
from lowwater.config import Config, Link
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.keys import dropped_duplicates, link_key, outdated
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.packets import (
    COPY,
    DroppedCopies,
    DuplicateRule,
    HashedLink,
    LinkRead,
    PacketFiles,
    divide,
    packet_files,
)
from lowwater.plan.temporal import END_OF_TIME
from lowwater.quality.links import scan_link
from tests.breadth import each_push
from tests.capturemaker import Record, pcap_bytes, udp
from tests.database import database
from tests.lake.support import BASE

SECOND = 1_000_000_000
SKEW, WINDOW = 2 * SECOND, 3 * SECOND
SETTINGS = {"skew": "2s", "duplicates": "drop 3s", "max_jump": "1h"}
RULE = Skews(SKEW)


def packets(seed: int, count: int = 120) -> list[Record]:
    """Packets of few contents, with disorder beyond the skew, as the wire gives them: a time in seconds."""
    draw, found, clock = random.Random(seed), [], 100
    for _ in range(count):
        clock += draw.choice([0, 0, 1, 1, 2, 5])
        stamp = BASE + (clock - draw.choice([0, 0, 0, 1, 2, 3])) * SECOND
        ttl = bytes([draw.choice([63, 64])])
        frame = udp("10.0.0.1", "10.0.0.2", 1, 2, bytes([draw.randrange(6)]))
        found.append((stamp, frame[:22] + ttl + frame[23:]))
    return found


COPIES = """
WITH numbered AS (SELECT *, max(stamp) OVER (ORDER BY n) AS arrival FROM records),
sane AS (SELECT * FROM numbered WHERE arrival - stamp <= {skew} AND stamp >= {since} AND stamp < {until})
SELECT n FROM sane r SEMI JOIN sane e ON r.content = e.content
AND r.stamp - e.stamp BETWEEN 0 AND {window} AND (e.stamp, e.n) < (r.stamp, r.n) ORDER BY n
"""


def oracle(records: list[Record], since: int = 0, until: int = END_OF_TIME, window: int = WINDOW) -> set[int]:
    """Numbers of the copies, by SQL over the frames without MAC addresses, TTL and checksums."""
    content = [frame[14:22] + frame[23:24] + frame[26:40] + frame[42:] for _, frame, *_ in records]
    stamps = [stamp for stamp, *_ in records]
    table = pa.table([range(len(records)), stamps, content], names=["n", "stamp", "content"])
    with database() as connection:
        connection.register("records", table)
        query = COPIES.format(skew=SKEW, since=since, until=until, window=window)
        return {n for (n,) in connection.execute(query).fetchall()}


def lake_of(folder: Path, records: list[Record], seed: int, link: Link) -> Lake:
    """A lake with the records cut into some files, which are ingested in any order."""
    draw = random.Random(seed)
    lake, config = open_lake(folder / f"lake{seed}"), Config(links={"a": link})
    cuts = sorted({0, len(records), *(draw.randrange(len(records)) for _ in range(draw.randrange(5)))})
    parts = list(enumerate(pairwise(cuts)))
    draw.shuffle(parts)
    for number, (begin, end) in parts:
        path = folder / f"{seed}-{number}.pcap"
        path.write_bytes(pcap_bytes(records[begin:end], nanoseconds=True))
        # Declared coverage keeps the files in the order in which they were cut, whatever their medians.
        ingest(lake, "a", [path], config, covers=(BASE + number, BASE + number + 1))
    return lake


def whole_read(lake: Lake, link: Link, low: int = 0, start: int = 0, end: int = END_OF_TIME) -> LinkRead:
    captures, files = read_captures(lake, ["a"])["a"], PacketFiles.of(lake)
    around = packet_files(files, "a", captures, link, min(low, start - SKEW) - WINDOW, start, end)
    read = packet_files(files, "a", captures, link, low, start, end)
    return replace(read, copies=DuplicateRule(WINDOW, True, HashedLink(around, RULE)))


def rows(read: LinkRead, dropped: DroppedCopies | None = None) -> list[tuple[int, int]]:
    """(timestamp, arrival) of what is read, in order."""
    found = list(read.batches(rows=7, dropped=dropped))
    return [(row["timestamp"], row["arrival"]) for batch in found for row in batch.to_pylist()]


@pytest.mark.slow
@pytest.mark.parametrize("seed", each_push(range(6), 3))
def test_copies_are_those_of_a_self_join_over_all_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw, records = random.Random(seed), packets(seed)
    life = {} if seed % 2 else {"since": BASE + 130 * SECOND, "until": BASE + 260 * SECOND}
    link = Link(**SETTINGS).model_copy(update=life)  # type: ignore[arg-type]
    since, until = link.since or 0, END_OF_TIME if link.until is None else link.until
    copied = oracle(records, since, until)
    assert 10 < len(copied) < 80
    monkeypatch.setattr(batches, "INGEST_CHUNK_BYTES", 600)  # so that a capture has several files
    monkeypatch.setattr(batches, "TASK_ROWS", 8)
    monkeypatch.setattr(module, "COMPARED_RECORDS", draw.choice([3, 40, 1 << 22]))
    lake = lake_of(tmp_path, records, seed, link)
    arrivals = np.maximum.accumulate([stamp for stamp, *_ in records]).tolist()
    kept = [
        (stamp, arrival)
        for n, ((stamp, *_), arrival) in enumerate(zip(records, arrivals, strict=True))
        if n not in copied and since <= stamp < until
    ]
    assert rows(whole_read(lake, link)) == kept
    ends = sorted(BASE + draw.randrange(100, 330) * SECOND for _ in range(3))
    bounds = [BASE, *ends, BASE + 400 * SECOND]
    total = 0
    for start, end in pairwise(bounds):
        low = start - draw.randrange(20) * SECOND
        read = pickle.loads(pickle.dumps(whole_read(lake, link, low, start, end)))
        expected = [row for row in kept if low <= row[0] < end or start <= row[1] < end]
        dropped = DroppedCopies()
        assert [row for part in divide(read, draw.randrange(5, 40)) for row in rows(part, dropped)] == expected
        inside = {n for n in copied if start <= records[n][0] < end}
        scan = scan_link(whole_read(lake, link, start, start, end), RULE)
        assert scan.copies is not None
        assert dropped.owned == scan.duplicates == len(inside)
        assert scan.copies.compared == scan.sane + scan.duplicates
        total += scan.sane + scan.duplicates + scan.violations.num_rows
    assert total == sum(since <= stamp < until for stamp, *_ in records)  # every record is in one account (A1)


@pytest.mark.slow
def test_a_report_drops_nothing_and_counts_other_links(tmp_path: Path) -> None:
    records, link = packets(1), Link(**SETTINGS)  # type: ignore[arg-type]
    lake = lake_of(tmp_path, records, 1, link)
    read = whole_read(lake, link)
    assert read.copies is not None
    own = read.copies.own
    earlier = replace(own, read=replace(own.read, link="0"))
    rule = replace(read.copies, drop=False, others=(earlier,))
    scan = scan_link(replace(read, copies=rule), RULE)
    copied = oracle(records)
    admitted = len(records) - scan.violations.num_rows
    assert scan.copies is not None and scan.duplicates == 0
    assert (scan.copies.copies, scan.copies.compared, scan.sane) == (len(copied), admitted, admitted)
    # The other link has the same packets, and its name comes first: each packet was seen there at the same instant.
    assert scan.copies.elsewhere == admitted
    later = replace(rule, others=(replace(own, read=replace(own.read, link="b")),))
    again = scan_link(replace(read, copies=later), RULE).copies
    assert again is not None and again.elsewhere == len(oracle_elsewhere(records))
    marked = [flag for batch in replace(read, copies=rule).batches(marked=True) for flag in batch[COPY].to_pylist()]
    assert {n for n, flag in enumerate(marked) if flag} == copied
    assert len(rows(replace(read, copies=rule))) == len(records)


def oracle_elsewhere(records: list[Record]) -> set[int]:
    """Numbers of the packets that a link with the same packets has earlier, if its name comes later."""
    contents = [frame[14:22] + frame[23:24] + frame[26:40] + frame[42:] for _, frame, *_ in records]
    stamps = [stamp for stamp, *_ in records]
    clocks = np.maximum.accumulate(stamps).tolist()
    sane = [n for n in range(len(records)) if clocks[n] - stamps[n] <= SKEW]
    return {n for n in sane if any(contents[m] == contents[n] and 0 < stamps[n] - stamps[m] <= WINDOW for m in sane)}


@pytest.mark.slow
def test_settings_are_an_input_only_where_they_drop(tmp_path: Path) -> None:
    records = packets(2)
    links = {
        name: Link(skew="2s", max_jump="1h", **settings)  # type: ignore[arg-type]
        for name, settings in {
            "keep": {},
            "report": {"duplicates": "report 3s"},
            "drop": {"duplicates": "drop 3s"},
            "shorter": {"duplicates": "drop 50ms"},
            "packet": {"duplicates": "drop 3s", "duplicate_bytes": "packet"},
        }.items()
    }
    lake = lake_of(tmp_path, records, 2, links["report"])
    captures = read_captures(lake, ["a"])["a"]
    bounds = BASE + 200 * SECOND, BASE + 250 * SECOND
    inputs = {name: link_key("a", captures, link, *bounds) for name, link in links.items()}
    assert inputs["keep"] == inputs["report"]
    assert len({str(each) for each in inputs.values()}) == 4
    assert [dropped_duplicates(link) for link in links.values()] == [
        None,
        None,
        "drop 3s by content",
        "drop 50ms by content",
        "drop 3s by packet",
    ]
    version = captures[0].decoder_version
    assert not any(outdated(captures, links[name], version, *bounds) for name in ("keep", "report", "drop", "shorter"))
    assert "has no hashes by which duplicates are found" in outdated(captures, links["packet"], version, *bounds)[0]
    again = [
        ingest(lake, "a", [Path(row.path)], Config(links={"a": links[name]})) for row in captures for name in links
    ]
    states = {result.state for (result,) in again[:4]}
    assert states == {"known"} and again[4][0].state == "replaced"


def test_hashes_of_true_addresses_are_not_anonymous() -> None:
    with pytest.raises(ValueError, match="hashes of packets are of true addresses"):
        Link(anonymise="a.key", duplicates="drop 50ms")  # type: ignore[arg-type]
