"""Names that a query may not have, each refused when it is checked, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.config import load_config
from lowwater.errors import ConfigError, QueryError
from lowwater.plan.bind.queries import RESERVED
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from tests.capturemaker import pcap_bytes, tcp
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


def test_reserved_names_are_those_that_run_writes(tmp_path: Path) -> None:
    capture, query, out = tmp_path / "a.pcap", tmp_path / "q.gsql", tmp_path / "out"
    capture.write_bytes(pcap_bytes([(10**9, tcp("10.0.0.1", "10.0.0.2", 1024, 80))]))
    query.write_text(SELECT)
    said = lowwater("run", query, "--capture", f"main1={capture}", "--out", out, "--engine", "reference")
    assert said.code == 0, said.err
    assert {path.stem for path in out.iterdir()} <= {"q", *RESERVED}


def test_two_names_that_differ_in_case_are_refused() -> None:
    said = _error(f"DEFINE {{ query_name 'Flows'; }} {SELECT}", f"DEFINE {{ query_name 'flows'; }}\n{SELECT}")
    assert said.startswith("1.gsql:2:1: the names of the queries Flows and flows differ in case only")


def test_an_empty_or_endless_name_is_refused() -> None:
    assert "query_name is empty" in _error(f"DEFINE {{ query_name ''; }} {SELECT}")
    assert "it has 300 characters" in _error(f"DEFINE {{ query_name '{'a' * 300}'; }} {SELECT}")


def test_a_link_stands_in_brackets_once() -> None:
    links = Links(("main1", "main2"), {"core": ("main1", "main2")})
    for listed in ("main1, main1", "core, main1", "main1, core"):
        said = _error(f"SELECT time FROM [{listed}].TCP", links=links)
        assert f"[{listed}] lists main1 twice, which would count its packets twice" in said
    assert "lists main1 twice" in _error("SELECT time FROM [main1, main1].TCP")


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
