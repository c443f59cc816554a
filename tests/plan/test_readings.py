"""How people read the columns of a query: the plan tells of which column of packets they are, and in which unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.catalog.value_names import kind_of, value_name
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.plan.readings import readings

ROOT = Path(__file__).resolve().parents[2]


def told(text: str) -> dict[str, object]:
    """Column -> what is read beside 1,500, of the last query of a text."""
    query = plan_texts([("q", text)], Links()).queries[-1]
    return {name: how.kind or how.text(1_500) for name, how in readings(query.logical).items()}


@pytest.mark.parametrize(
    ("select", "read"),
    [
        (
            "protocol, destPort AS port, dns_type AS asked",
            {"protocol": "protocol", "port": "port", "asked": "dns_type"},
        ),
        ("len, len + caplen AS both, len * 8 AS bits", {"len": "1.5 kB", "both": "1.5 kB", "bits": ""}),
        ("destPort % 2 AS odd, destPort + 1 AS next", {"odd": "", "next": ""}),
        ("CASE WHEN SYN THEN srcPort ELSE destPort END AS server", {"server": "port"}),
        ("IF(SYN, srcPort, 0) AS server", {"server": "port"}),
        ("CASE WHEN SYN THEN srcPort ELSE len END AS mixed", {"mixed": ""}),
        ("coalesce(inner_protocol, protocol) AS p", {"p": "protocol"}),
    ],
)
def test_a_column_is_read_as_what_it_is(select: str, read: dict[str, str]) -> None:
    assert told(f"DEFINE {{ query_name 'q'; }} SELECT timestamp, {select} FROM a.TCP") == {"timestamp": ""} | read


def test_aggregates_and_joins_keep_what_their_values_are() -> None:
    grouped = """DEFINE { query_name 'q'; } SELECT tb, protocol, count(*) AS c, sum(len) AS bytes, max(destPort) AS top,
        avg(len) AS mean, sum(destPort) AS none, or_aggr(flags) AS seen, sum(len) FILTER (WHERE SYN) AS first
        FROM a.TCP GROUP BY time/60 AS tb, protocol"""
    assert told(grouped) == {
        "tb": "", "protocol": "protocol", "c": "", "bytes": "1.5 kB", "top": "port", "mean": "1.5 kB", "none": "",
        "seen": "flags", "first": "1.5 kB",
    }  # fmt: skip
    joined = """DEFINE { query_name 'q'; } SELECT Q.timestamp, A.timestamp - Q.timestamp AS lag, A.dns_rcode AS code,
        (A.timestamp - Q.timestamp)/1 ms AS ms INNER_JOIN FROM a.DNS Q, b.DNS A
        WHERE Q.timestamp <= A.timestamp AND A.timestamp <= Q.timestamp + 1 s AND Q.dns_id = A.dns_id"""
    assert told(joined) == {"timestamp": "", "lag": "1.5 µs", "code": "dns_rcode", "ms": "1.5 s"}


def test_the_query_sets_of_the_project_are_read() -> None:
    """Of conversations each column of bytes, ports, flags and times, through OVER, two queries and a join."""
    named = told((ROOT / "queries/conversations.gsql").read_text())
    expected = {"client_port": "port", "server_port": "port", "client_bytes": "1.5 kB", "server_bytes": "1.5 kB"}
    expected |= {"client_flags": "flags", "server_flags": "flags"}
    assert expected.items() <= named.items()


def test_names_are_those_of_the_registries() -> None:
    assert [value_name("protocol", number) for number in (1, 4, 6, 17, 41, 47, 58, 89, 132, 136, 200)] == [
        "ICMP", "IPIP", "TCP", "UDP", "IPv6", "GRE", "ICMPv6", "OSPF", "SCTP", "UDP-Lite", "",
    ]  # fmt: skip
    assert value_name(kind_of("inner_destPort"), 443) == "HTTPS" and value_name("flags", 0x29) == "FIN PSH URG"
    assert value_name("ether_type", 0x0806) == "ARP" and value_name("dns_rcode", 3) == "NXDOMAIN"
