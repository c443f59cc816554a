"""Random queries over random captures beside an oracle that shares nothing with the package (reference engine)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowwater.cli.main import cli
from tests.hostile.compare import CASES_OF_A_WORLD, run_world
from tests.hostile.found import FOUND
from tests.hostile.traffic import SECOND, make_world, pcapng_with_offset

WORLDS = 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(WORLDS))
def test_rows_of_the_reference_engine_are_those_of_the_oracle(seed: int, tmp_path: Path) -> None:
    compared, different = run_world(seed, "reference", tmp_path)
    assert compared > CASES_OF_A_WORLD and not different, "\n".join(map(str, different))


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "number"), FOUND)
def test_what_differed_once(seed: int, number: int, tmp_path: Path) -> None:
    _, different = run_world(seed, "reference", tmp_path, range(number, number + 1))
    assert not different, "\n".join(map(str, different))


@pytest.mark.slow
def test_packets_from_before_1970_are_malformed_and_named(tmp_path: Path) -> None:
    world = make_world(0, tmp_path / "captures")
    frames = [packet.frame for packet in world.packets[:10]]
    stamps = [SECOND * n - 5 * SECOND for n in range(10)]
    path = tmp_path / "before.pcapng"
    path.write_bytes(pcapng_with_offset(list(zip(stamps, frames, strict=True)), -100))
    query = tmp_path / "all.gsql"
    query.write_text("DEFINE { query_name 'every'; } SELECT timestamp, len FROM main1.ETH")
    out = tmp_path / "out"
    run = ["run", str(query), f"--capture=main1={path}", "--engine=reference", f"--out={out}"]
    cli.main(run, standalone_mode=False)
    rows = (out / "every.csv").read_text().splitlines()[1:]
    assert sorted(rows) == sorted(f"{ts},{len(f)}" for ts, f in zip(stamps, frames, strict=True) if ts >= 0)
    link = json.loads((out / "summary.json").read_text())["links"]["main1"]
    assert (link["read"], link["malformed"]) == (10, 5)
