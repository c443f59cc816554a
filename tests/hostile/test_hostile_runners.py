"""The same worlds by both runners, beside the oracle and the reference engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.compare import CASES_OF_A_WORLD, run_world

pytestmark = pytest.mark.timeout(1800)


@pytest.mark.slow
def test_rows_of_the_process_are_those_of_the_oracle(tmp_path: Path) -> None:
    compared, different = run_world(100, "process", tmp_path)
    assert compared > CASES_OF_A_WORLD and not different, "\n".join(map(str, different))


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_rows_of_spark_are_those_of_the_oracle(tmp_path: Path) -> None:
    compared, different = run_world(101, "spark", tmp_path)
    assert compared > CASES_OF_A_WORLD and not different, "\n".join(map(str, different))
