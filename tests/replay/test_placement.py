"""Tasks of a cluster are placed by size and files: balanced, always alike, and as `explain --executors` foretells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowwater.cluster import place
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import open_lake
from tests.breadth import examples
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import START, lowwater

TASKS = st.lists(st.tuples(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 1000)), min_size=1, max_size=40)
MACHINES = st.dictionaries(st.integers(1, 254).map("10.0.0.{}".format), st.integers(1, 4), min_size=1, max_size=6)


@settings(max_examples=examples(60))
@given(TASKS, MACHINES)
def test_no_machine_gets_much_more_than_its_share(tasks: list[tuple[str, int]], cores: dict[str, int]) -> None:
    chosen = place(tasks, cores)
    assert len(chosen) == len(tasks) and set(chosen) <= set(cores)
    share = sum(size for _, size in tasks) / sum(cores.values())
    largest = max(size for _, size in tasks)
    for host, number in cores.items():
        load = sum(size for (_, size), at in zip(tasks, chosen, strict=True) if at == host)
        # A machine gets a task beyond its share only while it is the least loaded with it.
        assert load <= 1.1 * share * number + largest * number
    assert place(tasks, dict(reversed(cores.items()))) == chosen


@settings(max_examples=examples(40))
@given(st.sets(st.text("abcdef", min_size=1, max_size=4), min_size=4, max_size=24), st.randoms())
def test_a_task_goes_where_its_files_were(names: set[str], random: object) -> None:
    """Tasks of one size: in another order they have the same machines; most stay when a machine is lost."""
    hosts = {f"10.0.0.{at}": 1 for at in range(1, 5)}
    tasks = [(name, 10) for name in sorted(names)]
    first = dict(zip(sorted(names), place(tasks, hosts), strict=True))
    mixed = list(tasks)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert dict(zip((name for name, _ in mixed), place(mixed, hosts), strict=True)) == first
    left = {host: 1 for host in hosts if host != "10.0.0.2"}
    assert set(place(tasks, left)) <= set(left)


def test_files_are_found_again_by_another_query_set_and_after_a_loss() -> None:
    """Of 100 tasks on 4 machines two in three keep theirs when another is lost; by chance it were one in three."""
    hosts = {f"10.0.0.{at}": 1 for at in range(1, 5)}
    tasks = [(f"packets/link=a/{at}.parquet", 1000 + at) for at in range(100)]
    before = place(tasks, hosts)
    after = place(tasks, {host: 1 for host in hosts if host != "10.0.0.4"})
    kept = [one == other for one, other in zip(before, after, strict=True) if one != "10.0.0.4"]
    assert sum(kept) > len(kept) * 0.66


def test_without_machines_nothing_is_chosen() -> None:
    assert place([("a", 1)], {}) == [""] and place([], {"10.0.0.1": 1}) == []


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A link of 40 packets in an hour, and one of 10."""
    root = tmp_path / "lake"
    open_lake(root)
    for link, count in (("fast", 40), ("slow", 10)):
        path = tmp_path / f"{link}.pcap"
        stamps = [START + at * HOUR // count for at in range(count)]
        path.write_bytes(pcap_bytes([(at, udp("10.0.0.1", "10.0.0.2", 9, 53)) for at in stamps], nanoseconds=True))
        span = f"{format_instant(START)}/{format_instant(START + HOUR)}"
        assert lowwater("ingest", "--lake", root, "--link", link, "--covers", span, path).code == 0
    (root / "lowwater.toml").write_text("[replay]\ntask_packets = 10\n")
    (tmp_path / "q.gsql").write_text("SELECT tb, count(*) AS n FROM [fast, slow].UDP GROUP BY time/60 AS tb")
    return root


@pytest.mark.slow
def test_explain_shows_rates_tasks_and_executors(lake: Path) -> None:
    query = lake.parent / "q.gsql"
    said = lowwater("explain", query, "--lake", lake, "--executors", "2x2", "--format", "json")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    assert [(each["link"], each["records"], each["tasks"]) for each in found["links"]] == [
        ("fast", 40, 4),
        ("slow", 10, 1),
    ]
    assert found["links"][0]["rate"] == pytest.approx(40 / 3600)
    tasks = [tuple(task) for each in found["executors"] for task in each["tasks"]]
    assert sorted(tasks) == [("fast", 1), ("fast", 2), ("fast", 3), ("fast", 4), ("slow", 1)]
    assert sum(each["records"] for each in found["executors"]) == 50 and found["longest"] <= 1.2
    said = lowwater("explain", query, "--lake", lake, "--executors", "2")
    assert said.code == 0 and "link fast: 0 records/s, 40 an interval, 4 tasks, since a task has about 10" in said.out
    assert "executor 1: " in said.out and "executor 2: " in said.out and "busiest executor: " in said.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--executors", "2"], "needs --lake"),
        (["--lake", ".", "--executors", "0"], "from 1 to 10,000"),
        (["--lake", ".", "--executors", "2x"], "write the number of executors"),
        (["--lake", ".", "--executors", "2", "--kernel"], "leave out --kernel"),
        (["--lake", ".", "--executors", "2", "--format", "mermaid"], "leave out --kernel"),
    ],
)
def test_what_is_no_cluster(tmp_path: Path, options: list[str], says: str) -> None:
    query = tmp_path / "q.gsql"
    query.write_text("SELECT time FROM UDP")
    said = lowwater("explain", query, *options)
    assert said.code == 2 and says in " ".join(said.err.replace("│", " ").split())
