"""Declared protocols: inheritance, temporal attributes, access functions, and the queries over them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lowwater.catalog.protocols import Protocol
from lowwater.gsql.parser import parse
from lowwater.plan.bind.names import declare
from lowwater.plan.context import Links
from lowwater.plan.queryset import Plan, plan_texts

LINKS = Links(("eth", "web", "app"), {}, {}, {"web": "csv", "app": "csv"})
BASE = (
    "PROTOCOL base { uint systemTime get_system_time (increasing, snap_len 0); string site get_csv_string_pos9; }"
    "PROTOCOL log (base) { ullong at get_csv_ullong_pos1 (increasing, unit 'ms'); IP who get_csv_ip_pos2;"
    " llong step get_csv_llong_pos3 (decreasing, banded 5); }\n"
)


def protocols(text: str) -> dict[str, Protocol]:
    return declare([(block, "", text) for block in parse(text).protocols])


def plan(text: str) -> Plan:
    return plan_texts([("q.gsql", text)], LINKS)


def test_the_clock_is_what_says_so_else_the_first_that_the_record_brings() -> None:
    log = protocols(BASE)["log"]
    assert log.clock is not None and log.clock.name == "int:at"
    kinds = {attribute.name: (attribute.clock, attribute.stamp, attribute.skew) for attribute in log.attributes}
    assert kinds["int:step"] == (False, "external", 5) and kinds["arrival.1000000000:systemTime"] == (
        False,
        "internal",
        0,
    )
    said = protocols(
        "PROTOCOL a { uint x get_csv_uint_pos1 (increasing); uint y get_csv_uint_pos2 (increasing, clock); }"
    )
    assert said["a"].clock is not None and said["a"].clock.name == "int:y"


def test_a_protocol_without_a_link_reads_the_links_of_its_kind() -> None:
    (query,) = plan(BASE + "SELECT who FROM log").queries
    assert query.links == ["app", "web"]
    (query,) = plan("SELECT srcIP FROM TCP").queries
    assert query.links == ["eth"]


@pytest.mark.slow
def test_the_inputs_of_a_declared_protocol_are_those_of_every_process() -> None:
    text = "PROTOCOL wide (TCP) { uint size get_len; } SELECT time, size FROM eth.wide"
    code = (
        "from lowwater.plan.context import Links; from lowwater.plan.queryset import plan_texts;"
        f"print(plan_texts([('q.gsql', {text!r})], Links(('eth',))).queries[0].parts)"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(made) == 1 and b"protocol wide" in made.pop()
