"""Notes: what check and explain say of queries that have a meaning, but hardly the one that was meant."""

from __future__ import annotations

import pytest

from lowwater.plan.context import Context, Links
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.plan.text import Note
from lowwater.replay.checks import not_run

LINKS = Links(("main1", "main2", "web"), kinds={"web": "csv"})
JOIN = "SELECT A.time FROM main1.TCP A, main2.TCP B WHERE "
SIDES = "main1.TCP A, main2.TCP B WHERE A.time = B.time AND A.srcIP = B.srcIP"
OUTER = f"SELECT A.time, B.len LEFT_OUTER_JOIN FROM {SIDES} AND "


FULL = OUTER.replace("LEFT_", "").replace("A.time,", "A.len ,")
BETWEEN = f"SELECT A.time, B.len FROM {SIDES.replace(',', ' LEFT JOIN')} AND "
QUIET = (
    BETWEEN + "A.len > 9",
    BETWEEN + "B.srcIP IS NULL",
    BETWEEN.replace("WHERE", "ON") + "B.len > 9",
    BETWEEN.replace("WHERE", "ON").replace("B.len", "B.srcIP") + "B.len > 9 WHERE B.srcIP IS NULL",
    OUTER + "B.len > 9",
    OUTER + "B.len IS NOT NULL",
    OUTER.replace("B.len", "CASE WHEN B.srcIP IS NULL THEN A.srcIP ELSE B.srcIP END") + "B.len > 9",
    f"DEFINE {{ query_name 'q'; dialect 'gigascope'; }} SELECT A.time, B.srcIP LEFT_OUTER_JOIN FROM {SIDES}",
    f"SELECT A.time, B.srcIP FROM {SIDES}",
    f"SELECT tb, max(B.len) LEFT_OUTER_JOIN FROM {SIDES} GROUP BY A.time/60 AS tb, A.srcIP",
)


def plan(text: str, **params: str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS, None, Context(params=params))


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        (OUTER + "B.srcIP IS NULL", (1, 116), "write LEFT JOIN ... ON ... WHERE B.srcIP IS NULL"),
        (OUTER + "B.len IS NULL", (1, 116), "B.len IS NULL filters B before the join"),
        (FULL + "A.len IS NULL", (1, 111), "A.len IS NULL filters A before the join"),
        (BETWEEN + "B.len > 9", (1, 109), "B.len > 9 is asked of the joined rows, as in SQL, so that rows without"),
        (
            "DEFINE { query_name 'q'; dialect 'gigascope'; }\n" + BETWEEN + "B.len > 9",
            (2, 109),
            "in the dialect gigascope B.len > 9 filters B before the join",
        ),
        (
            BETWEEN.replace("LEFT", "FULL").replace("A.time,", "A.len ,") + "B.SYN AND A.len > 9",
            (1, 109),
            "B.SYN AND A.len > 9 is asked of the joined rows, as in SQL, so that rows without a match of B and A go",
        ),
        (OUTER.replace("B.len", "B.srcIP") + "A.len > 9", (1, 16), "take A.srcIP for a value in every row"),
        (f"SELECT B.srcIP, A.len OUTER_JOIN FROM {SIDES}", (1, 8), "take the column of USING, or CASE WHEN B.srcIP"),
        (
            f"SELECT tb, count(*) LEFT_OUTER_JOIN FROM {SIDES} GROUP BY A.time/60 AS tb, B.srcIP",
            (1, 137),
            "B.srcIP is NULL where B has no match",
        ),
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


@pytest.mark.parametrize("text", QUIET)
def test_joins_that_mean_what_they_say_are_not_noted(text: str) -> None:
    assert plan(text).notes == ()


RULE = "the rule for a side without a partner"
TIED = OUTER.replace("B.len", "B.srcIP") + "A.len > 9"
READS = (
    f"DEFINE {{ query_name 'j'; }} {TIED}; DEFINE {{ query_name 'q'; }} SELECT time, srcIP FROM j WHERE srcIP IS NULL"
)


@pytest.mark.parametrize(
    ("text", "stale"),
    [
        (TIED, True),
        (READS, True),
        (OUTER + "B.len > 9", False),
        (OUTER + "B.len IS NULL", False),
        (TIED.replace("LEFT_OUTER_JOIN", "INNER_JOIN"), False),
        (f"DEFINE {{ query_name 'q'; dialect 'gigascope'; }} {TIED}", False),
        (OUTER.replace("B.len", "CASE WHEN B.srcIP IS NULL THEN A.srcIP ELSE B.srcIP END") + "A.len > 9", False),
    ],
)
def test_only_what_read_a_tied_column_is_stale(text: str, stale: bool) -> None:
    query = plan(text).queries[-1]
    assert (RULE in [label for label, _ in query.parts]) is stale


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
