"""Notes: what check and explain say of queries that have a meaning, but hardly the one that was meant."""

from __future__ import annotations

import pytest

from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.text import Note
from lowwater.replay.checks import not_run

LINKS = Links(("main1", "main2", "web"), kinds={"web": "csv"})
JOIN = "SELECT A.time FROM main1.TCP A, main2.TCP B WHERE "
OUTER = "SELECT A.time, B.srcIP FROM main1.TCP A LEFT JOIN main2.TCP B WHERE A.time = B.time AND A.srcIP = B.srcIP AND "


def plan(text: str, **params: str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS, None, Context(params=params))


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (OUTER + "B.srcIP IS NULL", (1, 111), "(not B.srcIP, which an equality ties to the other side)"),
        (OUTER + "B.len IS NULL", (1, 111), "B.len IS NULL filters B before the join"),
        (OUTER.replace("LEFT", "FULL") + "A.len IS NULL", (1, 111), "A.len IS NULL filters A before the join"),
        (JOIN + "A.time <= B.time AND B.time <= A.time - 3", (1, 51), "the band of the join is empty"),
        (JOIN + "A.time = B.timestamp", (1, 51), "write A.time = B.timestamp/1000000000"),
        ("SELECT time FROM TCP WHERE destPort = NULL", (1, 28), "is never true: write destPort IS NULL"),
        ("SELECT time FROM TCP WHERE NULL <> destPort", (1, 28), "is never true: write destPort IS NOT NULL"),
    ],
)
def test_what_can_hardly_be_meant_is_noted(text: str, place: tuple[int, int], says: str) -> None:
    (note,) = plan(text).notes
    assert note.query == "q" and note.place == place and says in note.text
    assert str(note) == f"{place[0]}:{place[1]}: {note.text}"


def test_what_the_engines_do_not_run_is_noted_once_with_its_place() -> None:
    (note,) = not_run(plan("PROTOCOL N { uint t get_csv_uint_pos1 (increasing); }\nSELECT t FROM web.N"))
    assert isinstance(note, Note) and note.place == (2, 15) and "protocol N of csv" in note.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT tb, count(*) FROM TCP GROUP BY timestamp/60 AS tb", "60 nanoseconds"),
        ("SELECT tb, count(*) FROM TCP GROUP BY timestamp_us/900*900 AS tb", "900 microseconds"),
        ("SELECT DISTINCT timestamp/60 AS tb, srcIP FROM TCP", "60 nanoseconds"),
        ("SELECT wid, count(*) FROM TCP [RANGE 600, SLIDE 60, WA timestamp]", "600 nanoseconds"),
        ("SELECT tb, count(*) FROM TCP GROUP BY timestamp/(60 s) AS tb", ""),
        ("SELECT tb, count(*) FROM TCP GROUP BY timestamp/60000000000 AS tb", ""),
        ("SELECT tb, count(*) FROM TCP GROUP BY time/60 AS tb", ""),
        ("SELECT timestamp, count(*) FROM TCP GROUP BY timestamp", ""),
        ("SELECT wid, count(*) FROM TCP [RANGE 10 min, WA timestamp]", ""),
    ],
)
def test_an_epoch_below_a_millisecond_is_noted(text: str, says: str) -> None:
    notes = plan(text).notes
    assert [says in note.text and "less than a millisecond" in note.text for note in notes] == [True] * bool(says)
