"""ORDER BY with LIMIT, and QUALIFY, in plans (SEMANTICS O7): one tree for both, keys, shares, packets of a row."""

from __future__ import annotations

import pytest

from lowwater.gsql.nodes import Select
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file
from lowwater.plan import operators as ops
from lowwater.plan.properties import read_from
from lowwater.plan.queryset import QueryPlan, plan_texts
from lowwater.plan.shares import all_stages, shown
from lowwater.replay.packets import row_packets
from tests.plan.batch_pools import KNOWN

MINUTE = 60_000_000_000
GROUPS = "SELECT tb, srcIP, destPort, sum(len) AS bytes FROM main1.TCP GROUP BY time/60 AS tb, srcIP, destPort"


def plan(text: str) -> QueryPlan:
    *_, query = plan_texts([("q.gsql", text)], KNOWN).queries
    return query


def stages(text: str) -> list[str]:
    return [", ".join(map(shown, stage.keys)) for stage in all_stages(plan(text).high)]


@pytest.mark.parametrize(
    ("qualify", "limit"),
    [
        ("row_number() OVER (PARTITION BY tb ORDER BY bytes DESC) <= 10", "ORDER BY bytes DESC LIMIT 10 PER tb"),
        ("ROW_NUMBER() over (partition by tb order by n desc nulls last) < 11", "ORDER BY n DESC LIMIT 10 PER tb"),
        ("rank() OVER (PARTITION BY tb, srcIP ORDER BY n, 3) = 1", "ORDER BY n, 3 LIMIT 1 WITH TIES PER tb, srcIP"),
    ],
)
def test_qualify_is_a_spelling_of_limit(qualify: str, limit: str) -> None:
    assert print_file(parse(f"{GROUPS} QUALIFY {qualify}")).endswith(f"\n{limit}\n")
    assert parse(f"{GROUPS} QUALIFY {qualify}") == parse(f"{GROUPS} {limit}")


def test_words_of_limit_are_names_elsewhere() -> None:
    text = (
        "SELECT order, limit, per, desc, nulls, qualify, over\nFROM limit\nORDER BY order DESC, per LIMIT 3 PER desc\n"
    )
    (statement,) = parse(text).statements
    assert print_file(parse(text)) == text and isinstance(statement, Select)
    assert [item.expression.name for item in statement.items][:3] == ["order", "limit", "per"]  # type: ignore[attr-defined]


def test_what_is_not_selected_is_no_column_of_the_result() -> None:
    query = plan("SELECT srcIP FROM main1.TCP GROUP BY time/60 AS tb, srcIP ORDER BY sum(len) DESC LIMIT 3")
    assert [field.name for field in query.high.fields] == ["srcIP"]
    assert isinstance(query.high, ops.Top) and [field.temporal is not None for field in query.high.key_fields] == [True]


@pytest.mark.parametrize(
    ("end", "key"),
    [
        ("ORDER BY bytes LIMIT 3", ("tb", "srcIP", "destPort")),
        ("ORDER BY bytes LIMIT 1", ("tb",)),
        ("ORDER BY bytes LIMIT 1 WITH TIES", ("tb", "srcIP", "destPort")),
        ("ORDER BY bytes LIMIT 1 PER tb, srcIP", ("tb", "srcIP")),
        ("ORDER BY bytes LIMIT 1 PER tb/60", ("tb", "srcIP", "destPort")),
    ],
)
def test_one_row_of_each_value_makes_a_key(end: str, key: tuple[str, ...]) -> None:
    assert plan(f"{GROUPS} {end}").key == key


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{GROUPS} ORDER BY bytes LIMIT 3", ["srcIP, destPort", ""]),
        (f"{GROUPS} ORDER BY bytes LIMIT 3 PER tb, srcIP", ["srcIP"]),
        ("SELECT time, len FROM main1.TCP ORDER BY len LIMIT 3 PER time/60", [""]),
        ("SELECT time, len FROM main1.TCP ORDER BY len LIMIT 3 PER time/60, srcIP", ["srcIP"]),
        ("SELECT time, len FROM main1.TCP ORDER BY len LIMIT 3 WITH TIES PER time/60", ["", ""]),
        # Rows of another query have an order by columns that may be gone here.
        (f"DEFINE {{ query_name 'a'; visibility 'internal'; }} {GROUPS};\n"
         "DEFINE { query_name 'b'; } SELECT tb, bytes FROM a ORDER BY bytes LIMIT 3 PER tb", ["srcIP, destPort", ""]),
    ],
)  # fmt: skip
def test_each_share_gives_its_first_rows(text: str, found: list[str]) -> None:
    assert stages(text) == found


def test_an_interval_reads_its_epochs_whole() -> None:
    (start,) = read_from(plan(f"{GROUPS} ORDER BY bytes LIMIT 3 PER tb/60").high, 90 * MINUTE).values()
    assert start == 60 * MINUTE


def test_a_row_leads_to_the_packets_of_its_group() -> None:
    query = plan(f"{GROUPS} ORDER BY bytes DESC LIMIT 3")
    found = row_packets(query, {"tb": 20_000, "srcIP": "10.0.0.1", "destPort": 80, "bytes": 100})
    assert (found.start, found.end) == (20_000 * MINUTE, 20_001 * MINUTE)
