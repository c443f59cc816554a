"""The tools of this folder on a set of our own, and all published queries where a folder has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.public import runs
from tests.public.recorded import compare_recorded
from tests.public.runs import checked
from tests.public.sources import QuerySet, Recorded, planned, query_set

SCHEMA = """
PROTOCOL base {
    uint systemTime get_system_time (low_cardinality, required, increasing, snap_len 0);
    uint schemaId get_schemaId (low_cardinality, required, snap_len 0);
}
PROTOCOL CALLS (base) {
    uint user get_gdat_uint_pos1; bool ok get_gdat_bool_pos2; float cost get_gdat_float_pos3;
    IP cell get_gdat_ip_pos4; string name get_gdat_string_pos5; uint step get_gdat_uint_pos6 (increasing);
}
PROTOCOL MOVES (base, schema_id 7) {
    ullong timestamp_ms get_moves__timestamp_ms (required, increasing); llong user get_moves__user (required);
    llong left get_moves__left (decreasing, banded 3);
}
"""
QUERIES = """
DEFINE { query_name 'kinds'; }
select systemTime, name, count(*), sum(ok), max(cell), or_aggr(ok), quantile_of(user, 0.9) as q
from [calls].CALLS where user in [3, 12] or cost > 0.3 group by systemTime, name;

DEFINE { query_name 'moved'; } PARAM { window uint; }
select tb, user, count(*) as n, sum(UMAX(INT(left), 1)) / count(*) as mean, max(schemaId) as schema
from A.MOVES group by timestamp_ms/$window as tb, user;

DEFINE { query_name 'calls'; }
select tb, user, count(*) as n from B.CALLS where name <> 'quiet' group by systemTime/60 as tb, user;

DEFINE { query_name 'others'; } PARAM { window uint; }
select tb, user, count(*) as n from C.MOVES group by timestamp_ms/$window as tb, user;

DEFINE { query_name 'both'; }
select m.tb, m.user, m.n, c.user, c.n OUTER_JOIN from moved m, others c
where m.tb = c.tb and m.user = c.user and m.n > 1;

DEFINE { query_name 'steps'; } select tb, count(*) as n, avg(cost) as mean from B.CALLS group by step/7 as tb;

DEFINE { query_name 'left'; } select tb, count(*) as n from A.MOVES group by left/5 as tb;

DEFINE { query_name 'seen'; } PARAM { window uint; }
select tb, user, LAST(left) as last from A.MOVES group by timestamp_ms/$window as tb, user
CLOSING_WHEN count(*) = 0;

DEFINE { query_name 'users'; } select tb, count(*) as users, max(last) as most from seen group by tb;

DEFINE { query_name 'wrong'; } select nothing from A.MOVES
"""
RECORDED = """1767|DEF|2|1|10.0.0.9|TRUE|3
1767|ABC|1|0|10.0.0.1|FALSE|12
"""
INPUT = """3|TRUE|0.5|10.0.0.9|DEF|1
3|FALSE|1.5|10.0.0.1|DEF|2
12|FALSE|0.0|10.0.0.1|ABC|2
"""


def _own(folder: Path) -> QuerySet:
    (folder / "Input.txt").write_text(INPUT)
    (folder / "Expected_kinds.txt").write_text(RECORDED)
    recorded = Recorded("kinds", folder / "Input.txt", folder / "Expected_kinds.txt")
    return query_set("ours", "own", [("own", QUERIES)], SCHEMA, [recorded])


@pytest.mark.slow
def test_a_set_of_our_own_is_adapted_run_and_compared(tmp_path: Path) -> None:
    queries = _own(tmp_path)
    names, why = planned(queries)
    assert list(why) == ["wrong"] and "nothing" in why["wrong"]
    outcome = checked(queries, names, why, None)
    assert not outcome.different and not outcome.empty
    assert outcome.ran == names and outcome.no_sql == {"seen": "CLOSING_WHEN, LAST"}
    assert (outcome.beside_sql, outcome.beside_batch) == ([name for name in names if name != "seen"], ["seen"])
    compare_recorded(queries, names, None, outcome)
    assert (outcome.files, outcome.lines, outcome.different) == ((1, 1), (2, 2), [])


@pytest.mark.slow
def test_other_rows_than_those_of_sql_or_of_a_recording_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = _own(tmp_path)
    outcome = checked(queries, ["steps"], {}, None)
    assert outcome.beside_sql == ["steps"]
    (tmp_path / "Expected_kinds.txt").write_text(RECORDED.replace("|12", "|11"))
    compare_recorded(queries, ["kinds"], None, outcome)
    assert outcome.lines == (2, 1) and "kinds recorded: missing" in outcome.different[0]
    text = QUERIES.replace("step/7", "step/6")
    other = replace(queries, statements=query_set("", "", [("own", text)], SCHEMA).statements)
    plan_of = runs.plan_of
    monkeypatch.setattr(runs, "plan_of", lambda _, names: plan_of(other, names))
    assert "steps: DuckDB" in checked(queries, ["steps"], {}, None).different[0]
