"""Windows and groupings that multiply rows: how often, and what is refused above a limit."""

from __future__ import annotations

import pytest

from lowwater.errors import QueryError, QueryErrors
from lowwater.plan.context import Links
from lowwater.plan.properties import copies
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks import MOST_COPIES, cost_notes, require_affordable


def plan(*texts: str) -> Plan:
    return plan_texts([(f"{number}.gsql", text) for number, text in enumerate(texts)], Links(("main1", "main2")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT wid, count(*) AS n FROM TCP [RANGE 10 s, SLIDE 3 s, WA time]", [4]),
        ("SELECT wid, count(*) AS n FROM TCP [RANGE 3 s, SLIDE 10 s, WA time]", [1]),
        ("SELECT wid, count(*) AS n FROM TCP [RANGE 10 s, WA time]", []),
        ("SELECT wid, count(*) AS n FROM main1.TCP [RANGE 100 ROWS, SLIDE 10 ROWS]", [10]),
        ("SELECT tb, count(*) AS n FROM TCP GROUP BY time/10 AS tb, CUBE(len, ttl, tos)", [8]),
        ("SELECT tb, count(*) AS n FROM TCP GROUP BY time/10 AS tb, ROLLUP(len, ttl), CUBE(tos, id)", [12]),
        ("SELECT wid, ttl, count(*) AS n FROM TCP [RANGE 10 s, SLIDE 2 s, WA time] GROUP BY CUBE(ttl)", [10, 5]),
    ],
)
def test_how_many_rows_are_made_of_one(text: str, expected: list[int]) -> None:
    found = [made for query in plan(text).queries for _, _, made in copies(query.logical)]
    assert sorted(found) == sorted(expected)


def test_the_limit_is_the_largest_that_passes() -> None:
    found = plan("SELECT wid, count(*) AS n FROM TCP [RANGE 1000 s, SLIDE 1 s, WA time]")
    require_affordable(found, 1000)
    with pytest.raises(QueryError, match=r"each row is in 1,000 overlapping windows; 999 are allowed") as caught:
        require_affordable(found, 999)
    assert (caught.value.line, caught.value.column) == (1, 43)
    assert "copies = 1000 in [replay]" in caught.value.hint


def test_all_are_refused_together_and_check_says_them() -> None:
    names = ", ".join(("len", "ttl", "tos", "id", "offset", "flags", "window", "srcPort", "destPort", "protocol"))
    found = plan(
        "SELECT wid, count(*) AS n FROM TCP [RANGE 1 d, SLIDE 1 ns, WA timestamp]",
        f"SELECT tb, count(*) AS n FROM TCP GROUP BY time AS tb, CUBE({names}, vlan_id, caplen, ether_type)",
    )
    with pytest.raises(QueryErrors) as caught:
        require_affordable(found, MOST_COPIES)
    texts = [error.message for error in caught.value.errors]
    assert "86,400,000,000,000 overlapping windows" in texts[0] and "8,192 groupings" in texts[1]
    notes = [note.text.split("; write")[0].split("; use")[0] for note in cost_notes(found)]
    assert notes == [text.split(": ", 1)[1] for text in texts]


def test_groupings_beyond_all_limits_are_never_written_out() -> None:
    names = ", ".join(f"len + {number} AS c{number}" for number in range(40))
    with pytest.raises(QueryError, match=r"1,099,511,627,776 groupings, and there may be 65,536"):
        plan(f"SELECT tb, count(*) AS n FROM TCP GROUP BY time AS tb, CUBE({names})")
