"""The wheel and the source distribution hold what users need, and work in environments of their own."""

from __future__ import annotations

import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from lowwater import __version__
from lowwater.extras import EXTRAS, SHARED, absent, checkout, extra_of, shared
from tests.packaging import installed
from tests.packaging.installed import ROOT, Installation

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
FOLDERS = {
    **{name: f"lowwater/share/{name}" for name in SHARED},
    "lowwater": "lowwater",
    "expectations": "lowwater_expectations",
    "editor": "lowwater_editor",
    "generator": "lowwater_generator",
    "notebook": "lowwater_notebook",
    "review": "lowwater_review",
    "plugins/lowwater_airflow": "lowwater_airflow",
}
"""Folder of the checkout -> folder of the wheel."""
HEAVY = ("pyspark", "apache-airflow", "great-expectations", "pandas", "fastapi")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return installed.build(tmp_path_factory.mktemp("built"))


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def pins(path: Path) -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)==([^\s\\;]+)", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_each_extra_has_packages_and_a_lock() -> None:
    named = set(PROJECT["optional-dependencies"])
    assert named == {*EXTRAS, "all"}
    assert {path.stem for path in LOCKS} == named | {"core"}
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert set(re.findall(r"\w+", everything)) - {"lowwater"} == set(EXTRAS)


def test_the_light_core_has_no_platform() -> None:
    core = pins(ROOT / "requirements" / "core.txt")
    assert len(core) < 40 and not set(HEAVY) & set(core)
    assert "pyspark" in pins(ROOT / "requirements" / "spark.txt")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_locks_of_extras_have_the_versions_that_were_tested(lock: Path) -> None:
    tested = pins(ROOT / "requirements.txt")
    other = {name: version for name, version in pins(lock).items() if tested.get(name, version) != version}
    assert other == {}, "run make lock"


def test_what_the_checkout_has_is_no_wheel() -> None:
    assert checkout() == ROOT
    assert (shared("dags") / "capture_ingest.py").is_file()
    with pytest.raises(ValueError, match="is none of dags"):
        shared("tests")
    assert [extra for extra in ("spark", "quality", "airflow") if absent(extra)] == []
    assert extra_of("great_expectations.core") == "quality" and extra_of("numpy") is None


@pytest.mark.slow
def test_wheel_and_sdist_hold_every_file_of_their_folders(built: tuple[Path, Path]) -> None:
    sdist, wheel = built
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, packaged in FOLDERS.items():
        files = {f"{packaged}/{name.removeprefix(f'{folder}/')}" for name in tracked(folder)}
        files = {name for name in files if "/stubs/" not in name}
        if folder == "docs":  # the page of which `lowwater ask` has its questions; the others are a site
            files = {f"{packaged}/cookbook.md"} & files
        assert files and files - names == set(), "pyproject.toml does not list them"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    with tarfile.open(sdist) as archive:
        assert f"lowwater-{__version__}/pyproject.toml" in archive.getnames()
    points = zipfile.ZipFile(wheel).read(f"lowwater-{__version__}.dist-info/entry_points.txt").decode()
    assert "[airflow.plugins]\nlowwater = lowwater_airflow.views:LowwaterReview" in points


@pytest.mark.nightly
@pytest.mark.slow
def test_the_light_core_works_from_the_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    place = Installation(tmp_path, built[1])
    installed.check_light(place, __version__)
    installed.check_absent(place)


@pytest.mark.nightly
@pytest.mark.slow
def test_quality_alone_works_from_the_wheel(built: tuple[Path, Path], tmp_path: Path) -> None:
    """Without Spark: an interval is evaluated, audited and published by the process."""
    place = Installation(tmp_path, built[1], ["quality"])
    installed.check_quality(place)
    installed.write_capture(tmp_path)
    installed.check_lake(place)
