"""The sampling operator with its shipped states: lossy counting by hand, and what an epoch takes over."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given

from lowwater.plan.operators import Node
from lowwater.reference.engine import ReferenceResult, evaluate
from tests.plan.batch_worlds import SECOND
from tests.reference.streams import UNIT, Link, plan, random_link, record, replay

HEAVY = """SELECT tb, srcPort, count(*) AS n FROM main1.ETH WHERE srcPort IS NOT NULL GROUP BY time/60 AS tb, srcPort
CLEANING_WHEN local_count(3) = TRUE CLEANING_BY count(*) + FIRST(current_bucket()) > current_bucket()"""
SMART = """SELECT tb, srcPort, init_threshold() AS began, ssthreshold() AS z, packet_count() AS offered, sum(len)
FROM main1.ETH WHERE ssample(len, 2) = TRUE GROUP BY time/10 AS tb, srcPort, id SUPERGROUP tb, srcPort
HAVING ssfinal_clean(sum(len)) = TRUE CLEANING_WHEN ssdo_clean() = TRUE CLEANING_BY ssclean_with(sum(len)) = TRUE"""


@pytest.mark.slow
@given(random_link(60))
def test_lossy_counting_is_that_of_the_packets_in_order_of_time(link: Link) -> None:
    epochs: dict[int, list[int]] = {}
    packets = sorted(link.admitted(), key=lambda each: (each["timestamp"], each["position"]))
    for each in packets:
        if each["srcPort"] is not None:
            epochs.setdefault(each["timestamp"] // (60 * SECOND), []).append(each["srcPort"])
    expected: Counter[tuple[object, ...]] = Counter()
    for epoch, ports in epochs.items():
        known: dict[int, tuple[int, int]] = {}
        for number, port in enumerate(ports, 1):
            bucket = (number - 1) // 3 + 1
            count, since = known.get(port, (0, bucket))
            known[port] = count + 1, since
            if number % 3 == 0:
                known = {each: pair for each, pair in known.items() if sum(pair) > bucket}
        expected.update((epoch, port, count) for port, (count, _) in known.items())
    assert Counter(replay(plan(HEAVY), {"main1": link}).rows) == expected


def test_an_epoch_begins_with_what_the_one_before_left() -> None:
    # Port 1 has packets in the epochs 0, 1 and 3, port 2 in 0 and 2; each packet is a group of its own.
    seconds = [(1, 1, 8), (2, 2, 2), (12, 1, 1), (22, 2, 1), (32, 1, 1)]
    packets = [(second, port) for second, port, count in seconds for _ in range(count)]
    records = [record(at, second * SECOND, len=1000, srcPort=port) for at, (second, port) in enumerate(packets)]
    found = replay(plan(SMART), {"main1": Link(0, records)}).rows
    began = {(tb, port): z for tb, port, z, *_ in found}
    ended = {(tb, port): z for tb, port, _, z, *_ in found}
    offered = {(tb, port): n for tb, port, _, _, n, _ in found}
    assert offered == {(0, 1): 8, (0, 2): 2, (1, 1): 1, (2, 2): 1, (3, 1): 1}
    assert began[0, 1] == began[0, 2] == 200
    # Eight groups, then a cleaning at each of more than four; two are to be kept, so the threshold rises.
    assert ended[0, 1] > 200 and began[1, 1] == int(max(ended[0, 1] / 10, 1))
    # In epoch 1 port 2 was silent and in epoch 2 port 1: their states are gone.
    assert began[2, 2] == began[3, 1] == 200
    whole = Link(0, records)
    parts: list[tuple[object, ...]] = []
    state = None
    for start, end in ((0, 15), (15, 20), (20, 31), (31, 1 << 33)):
        result = evaluated(plan(SMART), whole, start * SECOND, min(end * SECOND, 1 << 62), state)
        parts += result.rows
        state = result.state
    assert sorted(parts, key=repr) == sorted(found, key=repr)


def evaluated(node: Node, link: Link, start: int, end: int, state: str | None) -> ReferenceResult:
    packets = {"main1": link.batches()}
    over = max(each["timestamp"] for each in link.records) + UNIT
    return evaluate(node, packets, {"main1": link.skew}, start, end, {"q.ETH": 0}, SECOND, state=state, over=over)
