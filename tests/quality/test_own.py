"""Suites as a person has them: classes of their own, SQL, late records; what stops a run, and what goes on."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.capturemaker import ethernet, pcap_bytes
from tests.replay.support import START, Said, lowwater

pytestmark = pytest.mark.slow
FIRST, SECOND = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
QUERY = (
    "DEFINE {{ query_name '{0}'; }} SELECT tb, srcPort, count(*) AS n FROM main1.UDP GROUP BY time/60 AS tb, srcPort\n"
)
SETTINGS = """[query_sets.flows]
files = ["../flows.gsql"]

[query_sets.other]
files = ["../other.gsql"]

[links.main1]
skew = "1s"
since = "2026-01-01T00:00:00Z"
until = "2026-01-01T01:00:00Z"

[thresholds]
violating = { warning = 1, critical = 1 }
"""
EVEN = '''from great_expectations.expectations import core


class ExpectQueryCountsToBeEven(core.UnexpectedRowsExpectation):
    """By SQL of its own."""

    unexpected_rows_query: str = "SELECT * FROM {batch} WHERE n % 2 = 1"


class ExpectPortsToBeUnprivileged(core.ExpectColumnMinToBeBetween):
    """By arguments of its own."""

    column: str = "srcPort"
    min_value: float = 1024
'''
SQL = "unexpected_rows_expectation"


def udp(port: int) -> bytes:
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 32, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    return header + struct.pack("!HHHH", port, 9, 12, 0) + bytes(4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with two query sets over an hour: 60 packets of port 53, 3 of port 2000, of which 2 come 500 s late."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "lake").mkdir()
    (folder / "lake" / "lowwater.toml").write_text(SETTINGS, encoding="utf-8")
    for name in ("flows", "other"):
        (folder / f"{name}.gsql").write_text(QUERY.format(name), encoding="utf-8")
    times = [(10 * number, 53) for number in range(60)] + [(91, 2000), (92, 2000), (600, 2000)]
    frames = [(START + second * 10**9, ethernet(udp(port))) for second, port in times]
    (folder / "main1.pcap").write_bytes(pcap_bytes(frames, nanoseconds=True))
    said = lowwater(
        "ingest", "--lake", folder / "lake", "--link", "main1", "--covers", f"{FIRST}/{SECOND}", folder / "main1.pcap"
    )
    assert said.code == 0, said
    return folder


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


def suite(world: Path, name: str, *entries: Any, query_set: str = "flows") -> Path:
    path = world / "lake" / "expectations" / query_set / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": name, "expectations": entries}), encoding="utf-8")
    return path


def asked(kind: str, severity: str = "critical", **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "severity": severity}


def run(world: Path, *names: str) -> Said:
    return lowwater("backfill", "--lake", world / "lake", *[part for name in names for part in ("--query-set", name)])


def judged(world: Path, query_set: str = "flows") -> dict[str, bool]:
    """Suite -> the verdict of a checkpoint of the project."""
    import great_expectations as gx

    said = lowwater("gx", "--lake", world / "lake")
    assert said.code == 0, said
    context = gx.get_context(mode="file", project_root_dir=world / "lake")
    found = context.checkpoints.get(query_set).run()
    return {result.suite_name: bool(result.success) for result in found.run_results.values()}


def modules(world: Path, text: str = EVEN) -> Path:
    folder = world / "mine"
    folder.mkdir()
    (folder / "of_flows.py").write_text(text, encoding="utf-8")
    with (world / "lake" / "lowwater.toml").open("a", encoding="utf-8") as file:
        file.write('\n[suites]\nmodules = "../mine"\n')
    return folder


def test_classes_of_people_are_judged_where_their_folder_is_trusted_only(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = modules(world)
    suite(world, "flows", asked("expect_ports_to_be_unprivileged", "warning"))
    monkeypatch.delenv("LOWWATER_TRUSTED_MODULES", raising=False)
    ran = world / "ran"
    text = f"open({str(ran)!r}, 'w').close()\n{EVEN}"
    (folder / "of_flows.py").write_text(text, encoding="utf-8")
    for command in ("status", "plan", "report"):
        lowwater(command, "--lake", world / "lake")
    said = run(world)
    assert said.code == 1 and f"export LOWWATER_TRUSTED_MODULES={folder}" in said.err, said
    assert not ran.exists(), "nothing of it runs"
    assert {path.name for path in (world / "lake" / "tables").iterdir()} == {"other"}

    monkeypatch.setenv("LOWWATER_TRUSTED_MODULES", str(folder))
    folder.chmod(0o777)
    said = run(world)
    assert said.code == 1 and f"chmod -R go-w {folder}" in said.err and not ran.exists(), said
    folder.chmod(0o755)
    assert run(world).code == 0 and ran.exists()
    assert judged(world) == {"flows.flows": False}, "port 53"

    suite(world, "flows", asked("expect_query_counts_to_be_even"))
    again = lowwater("replay", "flows", "--lake", world / "lake", "--stage", "audit", "--from", FIRST, "--to", SECOND)
    assert again.code == 1 and "expect_query_counts_to_be_even".removeprefix("expect_").replace("_", " ") in again.err
    assert judged(world) == {"flows.flows": False}

    monkeypatch.delenv("LOWWATER_TRUSTED_MODULES")
    said = lowwater("gx", "--lake", world / "lake")
    assert said.code == 1 and f"export LOWWATER_TRUSTED_MODULES={folder}" in said.err
    with pytest.raises(Exception, match="nobody has allowed"):
        import great_expectations as gx

        gx.get_context(mode="file", project_root_dir=world / "lake")
    shutil.move(folder, world / "lake" / "mine")
    monkeypatch.setenv("LOWWATER_TRUSTED_MODULES", str(world / "lake" / "mine"))
    settings = world / "lake" / "lowwater.toml"
    settings.write_text(settings.read_text().replace("../mine", "mine"))
    said = run(world, "flows")
    assert said.code == 1 and "code in a lake is not run" in said.err


def test_sql_and_late_records_have_one_verdict_in_audit_and_checkpoint(world: Path) -> None:
    """Two packets of port 2000 are late: 1 is in a row, and 2 are rows of the ledger."""
    suite(
        world,
        "flows",
        asked(SQL, unexpected_rows_query="SELECT srcPort, sum(n) AS s FROM {batch} GROUP BY 1 HAVING s > 60"),
    )
    suite(
        world,
        "@skew_violations",
        asked(SQL, unexpected_rows_query="SELECT link FROM {batch} GROUP BY link HAVING count(*) > 2"),
        asked("expect_column_max_to_be_between", column="lateness", max_value=499 * 10**9),
    )
    said = run(world)
    assert said.code == 0, said
    assert judged(world) == {"flows.flows": True, "flows.@skew_violations": True}

    suite(world, "flows", asked(SQL, "warning", unexpected_rows_query="SELECT * FROM {batch} WHERE srcPort = 2000"))
    suite(
        world,
        "@skew_violations",
        asked(SQL, unexpected_rows_query="SELECT position FROM {batch} WHERE link = 'main1' AND lateness > 497e9"),
    )
    said = lowwater("plan", "--lake", world / "lake")
    assert "replay flows" in said.out + said.err, "audited by other suites"
    said = lowwater("replay", "flows", "--lake", world / "lake", "--stage", "audit", "--from", FIRST, "--to", SECOND)
    assert said.code == 1 and "@skew_violations" in said.err and "observed 2" in said.err, said
    assert judged(world) == {"flows.flows": False, "flows.@skew_violations": False}
    import great_expectations as gx

    context = gx.get_context(mode="file", project_root_dir=world / "lake")
    late = context.data_sources.get("lowwater").get_asset("skew_violations.flows")
    frame = late.get_batch_definition("newest").get_batch().data.dataframe
    assert sorted(frame["position"].tolist()) == [60, 61], "records of the capture, from 0"


def test_a_project_refuses_what_great_expectations_would_leave_out(world: Path) -> None:
    assert run(world).code == 0
    path = suite(world, "flows", asked("expect_nobody_knows"))
    said = lowwater("gx", "--lake", world / "lake")
    assert said.code == 1 and "the suite flows.flows has expect_nobody_knows" in said.err, said
    path.write_text("{")
    said = lowwater("gx", "--lake", world / "lake")
    assert said.code == 1 and f"{path}: cannot be read" in said.err


@pytest.mark.parametrize("broken", ["{", json.dumps({"name": "flows", "expectations": [asked("expect_nothing")]})])
def test_a_suite_that_cannot_be_judged_stops_runs_of_its_set_only(broken: str, world: Path) -> None:
    suite(world, "flows").write_text(broken)
    for command in (("status",), ("report",), ("report", "--html", world / "pages")):
        said = lowwater(command[0], "--lake", world / "lake", *command[1:])
        assert said.code == 0, said
    assert (world / "pages" / "index.html").exists()
    said = lowwater("plan", "--lake", world / "lake")
    assert "other" in said.out and "flows" in said.out, said
    said = run(world)
    assert said.code == 1 and said.err.count("flows.json") == 1, said
    done = {path.name for path in (world / "lake" / "tables").iterdir()}
    assert done == {"other"}
    said = lowwater("replay", "flows", "--lake", world / "lake", "--from", FIRST, "--to", SECOND)
    assert said.code == 1 and said.err.count("flows.json") == 1, said
