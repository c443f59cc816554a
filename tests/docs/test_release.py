"""The release checks see what is wrong, and hold for this checkout as far as they need no network."""

from __future__ import annotations

from scripts import release
from tests.docs.book import make_targets


def test_locks_licences_and_metadata_of_this_checkout_hold() -> None:
    assert [release.unlocked(), release.unlicensed(), release.unsupported()] == ["", "", ""]
    assert set(release.LONG) <= make_targets()
