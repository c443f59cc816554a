"""Names and mistakes that are refused when a query is checked, with their place and with what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.errors import ConfigError, QueryError
from lowwater.plan.bind.queries import RESERVED
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from tests.capturemaker import pcap_bytes, tcp, udp
from tests.replay.support import lowwater

SELECT = "SELECT time, len FROM main1.TCP"


def _error(*texts: str, links: Links | None = None) -> str:
    with pytest.raises(QueryError) as found:
        plan_texts([(f"{at}.gsql", text) for at, text in enumerate(texts)], links or Links())
    return str(found.value)


@pytest.mark.parametrize("name", [*RESERVED, "Summary"])
def test_the_name_of_a_file_of_run_is_no_name_of_a_query(name: str) -> None:
    said = _error(f"{SELECT};\nDEFINE {{ query_name '{name}'; }}\n{SELECT}")
    assert said.startswith(f"0.gsql:3:1: no query can be called {name}: `lowwater run` writes a file {name.lower()}")


@pytest.mark.slow
def test_a_capture_is_given_to_a_link_once(tmp_path: Path) -> None:
    data = pcap_bytes([(10**9, tcp("10.0.0.1", "10.0.0.2", 1024, 80))])
    first, alias, copy = (tmp_path / name for name in ("a.pcap", "alias.pcap", "copy.pcap"))
    first.write_bytes(data)
    alias.symlink_to(first)
    copy.write_bytes(data)
    query = tmp_path / "q.gsql"
    query.write_text("SELECT time, len FROM TCP")
    words = ("run", query, "--engine", "reference", "--out", tmp_path / "out", "--capture", f"main1={first}")
    said = lowwater(*words, "--capture", f"main1={first}")
    assert said.code == 2 and f"--capture main1={first}: is given twice, and a link reads a capture once" in said.err
    said = lowwater(*words, "--capture", f"main1={alias}")
    assert said.code == 2 and f"--capture main1={alias}: is the file {first}" in said.err
    said = lowwater(*words, "--capture", f"main1={copy}")
    assert said.code == 1 and f"--capture main1={copy}: has the same records as {first}" in said.err
    assert lowwater(*words, "--capture", f"main2={copy}").code == 0


def test_names_of_query_sets_and_links_of_sets_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text("[query_sets.flows]\n[query_sets.Flows]\n")
    with pytest.raises(ConfigError, match=r"query_sets\.Flows: differs from 'flows' in case only"):
        load_config(tmp_path)
    (tmp_path / "lowwater.toml").write_text("[links.a]\n[sets]\ncore = ['a', 'a']\n")
    with pytest.raises(ConfigError, match=r"sets\.core: lists 'a' twice"):
        load_config(tmp_path)


def test_a_window_of_no_length_is_the_only_mistake() -> None:
    for name in ("wid", "window_start", "window_end"):
        said = _error(f"SELECT {name}, count(*) AS n FROM TCP [RANGE 0 s]")
        assert "RANGE and SLIDE are whole numbers" in said and "unknown" not in said
    assert "unknown column wid" in _error("SELECT wid, count(*) AS n FROM TCP GROUP BY time/(60-60) AS tb")


@pytest.mark.parametrize(
    ("divisor", "fault"),
    [
        ("(60-60)", "time/(60 - 60) is no epoch, since it divides by 0"),
        ("(30*2)", "time/(30*2) is no epoch, since 30*2 is not written as one number, 60"),
    ],
)
def test_an_epoch_of_computed_length_says_what_is_wrong(divisor: str, fault: str) -> None:
    assert fault in _error(f"SELECT tb, count(*) FROM TCP GROUP BY time/{divisor} AS tb")


def test_a_division_by_zero_has_a_note() -> None:
    notes = plan_texts([("q.gsql", "SELECT time FROM TCP WHERE len/0 > 1 OR len % 0 = 1")], Links()).notes
    assert [str(note) for note in notes] == [
        "1:28: len/0 is NULL in every row: it divides by 0",
        "1:41: len%0 is NULL in every row: it divides by 0",
    ]
    assert not plan_texts([("q.gsql", "SELECT time FROM TCP WHERE len/1 > 1 AND 0/len = 0")], Links()).notes


def test_a_sum_beyond_64_bits_names_its_line(tmp_path: Path) -> None:
    capture, query = tmp_path / "a.pcap", tmp_path / "q.gsql"
    capture.write_bytes(pcap_bytes([(at * 10**9, udp("10.0.0.1", "10.0.0.2", 1, 53)) for at in (1, 2)]))
    query.write_text("SELECT tb,\n  sum(9223372036854775807) AS s\nFROM a.UDP GROUP BY time/60 AS tb")
    said = lowwater("run", query, "--capture", f"a={capture}", "--engine", "reference", "--out", tmp_path / "out")
    assert said.code == 1 and "query q, at 2:3, column s: the sum of a group does not fit 64 bits" in said.err
