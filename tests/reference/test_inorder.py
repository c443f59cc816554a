"""What an experiment sees of in-order operators: latency and memory. Their rows: `test_order`."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments.architectures import Experiment, OperatorMeasures
from lowwater.errors import ConfigError
from lowwater.reference.engine import ReferenceResult
from tests.plan.batch_worlds import SECOND
from tests.reference.streams import Link, plan, record, replay

TCP = {"protocol": 6, "flags": 2}


def of(found: ReferenceResult, kind: str) -> list[OperatorMeasures]:
    return [each for each in found.observed if each.operator.split("/")[1] == kind]


def test_a_slow_flush_gives_a_result_for_each_packet_and_the_rest_with_the_next_epoch() -> None:
    node = plan("SELECT tb, srcPort, count(*) FROM main1.TCP GROUP BY time/10 AS tb, srcPort")
    stamps = [*range(10), 11, 12, 21, 35]
    records = [record(stamp, stamp * SECOND, srcPort=stamp % 5, **TCP) for stamp in stamps]
    link = {"main1": Link(0, records)}
    found, at_once = (replay(node, link, experiment=each) for each in (Experiment(flush=1), Experiment()))
    assert Counter(found.rows) == Counter(at_once.rows)
    # Of the five groups of the first epoch one with each of the packets of 11 and 12 s, the others with the next epoch.
    assert [tick // SECOND for tick in found.ticks] == [12, 13, 20, 20, 20, 22, 30, 36, 36]
    assert [tick // SECOND for tick in at_once.ticks] == [10] * 5 + [20] * 2 + [30, 36]
    (slow,) = of(found, "SlowFlush")
    assert (slow.rows, slow.tuples) == (len(found.rows), 5)
    with pytest.raises(ConfigError, match="a slow flush of -1"):
        Experiment(flush=-1)


def test_the_most_that_is_kept_is_seen_between_the_promises_of_a_tick() -> None:
    link = {"main1": Link(0, [record(at, at * SECOND, **TCP) for at in range(40)])}
    node = plan("SELECT wid, count(*) FROM main1.TCP [RANGE 6 s, SLIDE 2 s, WA time]")
    whole = replay(node, link, policy="none", experiment=Experiment("iop"))
    # The one promise moves all packets from the merge to the windows, which give them again one window at a time.
    assert [of(whole, kind)[0].tuples for kind in ("Order", "BufferedWindows", "Group")] == [40, 40, 1]
    counts = "DEFINE{{query_name '{0}';}} SELECT tb, count(*) AS n FROM {1}.TCP GROUP BY time/2 AS tb; "
    text = counts.format("a", "main1") + counts.format("b", "main2")
    text += "DEFINE{query_name 'q';} SELECT A.tb, B.n INNER_JOIN FROM a A, b B WHERE A.tb = B.tb"
    joined = plan(text)
    # The epochs of main1 wait for those of main2, which its promise lets go later at the same tick.
    both = link | {"main2": link["main1"]}
    (join,) = of(replay(joined, both, policy="none", experiment=Experiment("oop")), "Join")
    assert join.tuples == 20


@pytest.mark.slow
def test_memory_of_windows_by_rows_and_by_groups() -> None:
    many = {"main1": Link(0, [record(at, at * SECOND // 10, **TCP) for at in range(1000)]), "main2": Link(0)}
    query = "SELECT wid, {} count(*) FROM [main1, main2].TCP [RANGE 20 s, SLIDE {} s, WA time] {}"
    # Few windows of many packets: groups are few. One packet a group in many windows: rows are fewer.
    coarse, fine = plan(query.format("", 10, "")), plan(query.format("id,", 1, "GROUP BY id"))
    forms = (("oop", "Group"), ("iop", "BufferedWindows"))
    tagged, buffered = (of(replay(coarse, many, experiment=Experiment(form)), kind)[0] for form, kind in forms)
    # A group has the number of its window and a count; of each packet its time is kept, through all of a window.
    assert (tagged.tuples, tagged.bytes) == (2, 2 * 16)
    # Those of a second come before the promise that ends a window.
    assert 200 <= buffered.tuples <= 210 and buffered.bytes == 8 * buffered.tuples
    tagged, buffered = (of(replay(fine, many, experiment=Experiment(form)), kind)[0] for form, kind in forms)
    assert tagged.tuples > 10 * buffered.tuples
    assert tagged.rows == buffered.rows == 1000 * 20
