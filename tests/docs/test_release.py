"""The release checks see what is wrong, and hold for this checkout as far as they need no network."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater import __version__
from scripts import release
from tests.docs.book import ROOT, make_targets


def test_locks_licences_and_metadata_of_this_checkout_hold() -> None:
    assert [release.unlocked(), release.unlicensed(), release.unsupported()] == ["", "", ""]
    assert set(release.LONG) <= make_targets()


@pytest.mark.parametrize(
    ("heading", "says"),
    [
        (f"{__version__}, 2026-11-30", ""),
        (f"{__version__}, not yet released", "not '"),
        ("0.0.9, 2026-11-30", f"of 0.0.9, the package {__version__}"),
    ],
)
def test_the_newest_section_of_the_changelog_has_the_version_and_a_date(
    heading: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n\n## 0.0.1, 2026-01-01\n")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    said = release.undated()
    assert (said == "") if not says else (says in said)


def test_a_version_that_the_locks_do_not_share_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    (tmp_path / "requirements.txt").write_text(text.replace("\nnumpy==", "\nnumpy==0"), encoding="utf-8")
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.unlocked() == "requirements/ and requirements.txt disagree on numpy"


def test_the_platforms_that_are_asked_for_wheels_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "installation.md").read_text(encoding="utf-8")
    assert f"macOS {release.MACOS.partition('.')[0]} or newer on Apple silicon" in page
    assert "Linux aarch64 (glibc 2.28 or newer)" in page
    assert {name.rpartition("manylinux_")[2] for name in release.PLATFORMS if "linux" in name} == {"2_28"}
