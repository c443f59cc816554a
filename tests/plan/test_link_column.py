"""The column `link` of packets: what it means in every place, and which name wins."""

from __future__ import annotations

import pytest

from lowwater.catalog.expr import Column
from lowwater.catalog.protocols import LINK, PROTOCOLS
from lowwater.catalog.values import Type
from lowwater.gsql.parser import parse
from lowwater.plan.bind.names import declare
from lowwater.plan.context import Links
from lowwater.plan.operators import Map, walk
from lowwater.plan.queryset import Plan, plan_texts

LINKS = Links(("main1", "main2", "side/eth0", "side/eth1"), sets={"both": ("main1", "main2")})
INTERFACE = Column(Type.STRING, "interface")
DECLARED = "PROTOCOL own { uint link get_len; uint x get_len; } PROTOCOL named { string link get_interface; }\n"


def plan(text: str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_every_protocol_has_it(protocol: str) -> None:
    (query,) = plan(f"SELECT link FROM main1.{protocol}").queries
    assert [(f.name, f.type) for f in query.high.fields] == [("link", Type.STRING)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT time, {0} AS x FROM TCP WHERE {0} = 'main1' OR {0} LIKE 'side/%'",
        "SELECT tb, {0} AS x, count(*) FROM TCP GROUP BY time/60 AS tb, {0} AS x",
        "SELECT tb, x, count(*) FROM TCP GROUP BY time/60 AS tb, CUBE({0} AS x)",
        "SELECT A.time, A.{0} AS a FROM TCP A JOIN UDP B WHERE A.time = B.time AND A.{0} = B.{0}",
        "SELECT R.time, R.{0} AS x FILTER_JOIN(time, 5) FROM TCP R, TCP S WHERE R.srcIP = S.srcIP AND R.{0} <> 'main1'",
        "SELECT m.{0} AS x FROM main1.TCP UNION main2.UDP AS m WHERE m.{0} <> 'main1'",
        "SELECT DISTINCT time/5 AS t, {0} AS x FROM [both].TCP",
        "SELECT x, count(*) FROM TCP [RANGE 1 min, WA time] GROUP BY {0} AS x",
        "SELECT tb, max({0}) AS a, count({0}) AS b FROM TCP GROUP BY time/60 AS tb HAVING min({0}) < 'n'",
    ],
)
def test_it_is_the_interface(text: str) -> None:
    by_link, by_interface = (plan(text.format(name)) for name in ("link", "interface"))
    if "FILTER_JOIN" in text or "UNION" in text:
        assert [f.name for f in by_link.queries[0].high.fields] == [f.name for f in by_interface.queries[0].high.fields]
    else:
        assert by_link.queries[0].high == by_interface.queries[0].high


def test_a_declared_field_wins() -> None:
    (query,) = plan(DECLARED + "SELECT link, x FROM main1.own WHERE link > 60").queries
    assert [(f.name, f.type) for f in query.high.fields] == [("link", Type.INT), ("x", Type.INT)]
    (item,) = [i for node in walk(query.logical) if isinstance(node, Map) for i in node.items if i.name == LINK]
    assert item.expr == Column(Type.INT, "len")
    assert [f.name for f in plan(DECLARED + "SELECT * FROM main1.named").queries[0].high.fields] == ["link"]


def test_a_declared_protocol_without_such_a_field_has_it_too_and_hides_it() -> None:
    block = (
        "PROTOCOL few { IP who get_srcIP; uint at get_time; } PROTOCOL more { IP who get_destIP; uint at get_time; }\n"
    )
    declared = declare([(each, "", block) for each in parse(block).protocols])
    assert declared["few"].columns[LINK] == INTERFACE
    (query,) = plan(block + "SELECT tb, link, count(*) FROM main1.few GROUP BY at/60 AS tb, link").queries
    assert [f.name for f in query.high.fields][:2] == ["tb", "link"]
    assert [f.name for f in plan(block + "SELECT * FROM main1.few").queries[0].high.fields] == ["who", "at"]
    united = plan(block + "SELECT who FROM main1.few UNION main2.more AS m").queries[0]
    assert [f.name for f in united.high.fields] == ["who"]
