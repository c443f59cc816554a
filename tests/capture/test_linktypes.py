"""Names of link types: every listed one has a name of its own. What is not decoded keeps times and lengths."""

from __future__ import annotations

from lowwater.capture.formats.capture_file import LINK_NUMBERS, LISTED, link_name
from lowwater.capture.headers.links import NAMES


def test_every_link_type_has_a_name_of_its_own() -> None:
    for number in {*LISTED, *NAMES}:
        assert link_name(number) != str(number)
        assert LINK_NUMBERS[link_name(number)] == number
    assert set(LISTED) >= {*range(11), *range(104, 208), *range(209, 305)}
    assert link_name(65_000) == "65000"


def test_a_decoded_link_type_keeps_the_name_that_lakes_hold() -> None:
    assert {number: link_name(number) for number in NAMES} == NAMES
    assert (link_name(1), link_name(50), link_name(105)) == ("EN10MB", "PPP_SERIAL", "80211")
