"""Anti-joins over captures in which what has no partner is known by construction."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.capturemaker import ACK, SYN, pcap_bytes, tcp
from tests.replay.support import lowwater

BEGIN, SECOND = 1_767_225_600, 1_000_000_000
SERVER = "192.0.2.1"

MEET = (
    "S.srcIP = A.destIP AND S.destIP = A.srcIP AND S.srcPort = A.destPort AND S.destPort = A.srcPort "
    "AND S.timestamp <= A.timestamp AND A.timestamp <= S.timestamp + 3 s"
)
SYNS = {
    "where": (
        f"SELECT S.time, S.srcPort AS port FROM main1.TCP S LEFT JOIN main2.TCP A ON A.SYN AND A.ACK AND {MEET} "
        "WHERE S.SYN AND NOT S.ACK AND A.srcIP IS NULL"
    ),
    "turned": (
        f"SELECT S.time, S.srcPort AS port FROM main2.TCP A RIGHT JOIN main1.TCP S ON A.SYN AND A.ACK AND {MEET} "
        "WHERE S.SYN AND NOT S.ACK AND A.destPort IS NULL"
    ),
    "above": (
        f"SELECT S.time, S.srcPort AS port, A.destIP AS answered LEFT_OUTER_JOIN FROM main1.TCP S, main2.TCP A "
        f"WHERE S.SYN AND NOT S.ACK AND A.SYN AND A.ACK AND {MEET}; "
        "DEFINE {{ query_name 'q'; }} SELECT time, port FROM tries WHERE answered IS NULL"
    ),
}

WITHOUT_ON = (
    f"SELECT S.time, S.srcPort AS port FROM main1.TCP S LEFT JOIN main2.TCP A WHERE A.SYN AND A.ACK AND {MEET} "
    "AND S.SYN AND NOT S.ACK AND A.srcIP IS NULL"
)
"""WHERE asks the flags of the joined row, too, as in SQL: a SYN without an answer has none."""

HOSTS = (
    "DEFINE { query_name 'hosts'; visibility 'internal'; } SELECT tb, srcIP FROM TCP GROUP BY time/60 AS tb, srcIP;\n"
)
NEW = (
    "SELECT N.tb - 29453760 AS minute, N.srcIP FROM hosts N LEFT JOIN hosts B ON N.tb = B.tb + 1 AND N.srcIP = B.srcIP "
    "WHERE B.srcIP IS NULL"
)
ONE_LINK = (
    "DEFINE { query_name 'a'; visibility 'internal'; } SELECT tb, srcIP FROM main1.TCP GROUP BY time/60 AS tb, srcIP;\n"
    "DEFINE { query_name 'b'; visibility 'internal'; } SELECT tb, srcIP FROM main2.TCP GROUP BY time/60 AS tb, srcIP;\n"
    "DEFINE { query_name 'q'; } SELECT tb - 29453760 AS minute, srcIP FROM a FULL JOIN b USING (tb, srcIP) "
    "WHERE a.srcIP IS NULL OR b.tb IS NULL"
)


@pytest.fixture(params=("none", "1m"), ids=("whole", "in intervals"))
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., list[tuple[str, ...]]]:
    """Runs a text over frames of two links, by both engines, and returns the rows of `q`, sorted."""

    def run(text: str, **frames: list[tuple[int, bytes]]) -> list[tuple[str, ...]]:
        query = tmp_path / "q.gsql"
        query.write_text(text)
        words: list[str | Path] = [query]
        for link, packets in frames.items():
            file = tmp_path / f"{link}.pcap"
            file.write_bytes(pcap_bytes(sorted(packets), nanoseconds=True))
            words += ["--capture", f"{link}={file}"]
        words += [] if request.param == "none" else ["--interval", request.param]
        found = []
        for engine in ("reference", "process"):
            out = tmp_path / engine
            said = lowwater("run", *words, "--engine", engine, "--out", out)
            assert said.code == 0, said.err
            found.append(
                sorted(tuple(row.values()) for row in csv.DictReader((out / "q.csv").read_text().splitlines()))
            )
        assert found[0] == found[1]
        return found[0]

    return run


@pytest.mark.slow
def test_where_without_on_asks_the_joined_row(rows: Callable[..., list[tuple[str, ...]]]) -> None:
    asked = [(BEGIN * SECOND, tcp("10.0.0.1", SERVER, 2000, 443, SYN))]
    text = f"DEFINE {{ query_name 'q'; }} {WITHOUT_ON.replace('{{', '{').replace('}}', '}')}"
    assert rows(text, main1=asked, main2=[]) == []


@pytest.mark.slow
@pytest.mark.parametrize("form", SYNS)
def test_syns_without_an_answer(form: str, rows: Callable[..., list[tuple[str, ...]]]) -> None:
    random, asked, answers, unanswered = Random(61), [], [], []
    for port in range(2000, 2120):
        at = (BEGIN + random.randrange(240)) * SECOND + random.randrange(SECOND)
        asked.append((at, tcp(f"10.0.0.{port % 7 + 1}", SERVER, port, 443, SYN)))
        asked.append((at + 4 * SECOND, tcp(f"10.0.0.{port % 7 + 1}", SERVER, port, 443, ACK)))
        late = random.choice((0.001, 0.5, 2.9, 3.5, None))
        if late is not None:
            answers.append((at + int(late * SECOND), tcp(SERVER, f"10.0.0.{port % 7 + 1}", 443, port, SYN | ACK)))
        if late in (3.5, None):
            unanswered.append((str(at // SECOND), str(port)))
    name = "tries" if form == "above" else "q"
    text = f"DEFINE {{ query_name '{name}'; }} {SYNS[form].replace('{{', '{').replace('}}', '}')}"
    assert 20 < len(unanswered) < 100
    assert rows(text, main1=asked, main2=answers) == sorted(unanswered)


@pytest.mark.slow
def test_hosts_that_are_new_and_hosts_of_one_link(rows: Callable[..., list[tuple[str, ...]]]) -> None:
    random = Random(62)
    seen = {
        link: {(minute, f"10.0.0.{host}") for minute in range(6) for host in range(1, 9) if random.random() < 0.4}
        for link in ("main1", "main2")
    }
    frames = {
        link: [
            ((BEGIN + 60 * minute + random.randrange(60)) * SECOND, tcp(host, SERVER, 1024, 80, ACK))
            for minute, host in pairs
            for _ in range(2)
        ]
        for link, pairs in seen.items()
    }
    every = seen["main1"] | seen["main2"]
    new = sorted((str(minute), host) for minute, host in every if (minute - 1, host) not in every)
    assert rows(f"{HOSTS}DEFINE {{ query_name 'q'; }} {NEW}", **frames) == new
    alone = sorted((str(minute), host) for minute, host in seen["main1"] ^ seen["main2"])
    assert rows(ONE_LINK, **frames) == alone
