"""Texts of addresses and numbers: what is no such text is refused, and never taken for another value."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lowwater.capture.tables.blocks import addresses
from lowwater.catalog.values import format_mac, pack_ip, parse_mac, parse_whole


@pytest.mark.parametrize("text", ["02:00:00:00:00:01", "2:0:0:0:0:1", "02:00:00:00:00:0A"])
def test_an_ethernet_address_has_six_hex_numbers(text: str) -> None:
    assert format_mac(parse_mac(text))[:15] == "02:00:00:00:00:"


@pytest.mark.parametrize(
    "text",
    [
        "02:00:00:00:00: 1",
        "02:00:00:00:00:+1",
        "02:00:00:00:00:0x1",
        "02:00:00:00:00:001",
        "0_2:00:00:00:00:01",
        "02:00:00:00:00:\u0661",
        "02:00:00:00:00:01\n",
        "02:00:00:00:00",
        "02:00:00:00:00:-1",
        "02:00:00:00::01",
    ],
)
def test_what_only_python_reads_is_no_ethernet_address(text: str) -> None:
    with pytest.raises(ValueError, match="is no Ethernet address"):
        parse_mac(text)


@pytest.mark.parametrize("text", ["1_0", "\u0663", " 7", "0x_1", "", "0x", "7\n", "--7"])
def test_what_only_python_reads_is_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="is no whole number"):
        parse_whole(text)
    assert [parse_whole(each) for each in ("-7", "+7", "007", "0x1F")] == [-7, 7, 7, 31]


def test_an_address_with_a_zone_is_not_the_one_without() -> None:
    """Two hosts with equal addresses in two zones would be one."""
    with pytest.raises(ValueError, match="zone"):
        pack_ip("fe80::1%eth0")
    values, bad = addresses(pa.array(["fe80::1%eth0", "fe80::1", None, "fe80::1%25en1", "10.0.0.1"]))
    assert bad.tolist() == [True, False, False, True, False]
    assert values.is_null().to_pylist() == [True, False, True, True, False]
