"""Anonymised addresses: the published vectors, the properties of the scheme, batches, keys and what is refused."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.content.retention import key_digest, read_key
from lowwater.capture.content.stored import Anonymiser
from lowwater.catalog.values import pack_ip, words_from_ip
from lowwater.errors import ConfigError

KEY = bytes(
    [21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16,
     216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2]
)  # fmt: skip
"""The key of the sample trace in the authors' distribution."""
VECTORS = {
    "128.11.68.132": "135.242.180.132", "129.118.74.4": "134.136.186.123", "130.132.252.244": "133.68.164.234",
    "141.223.7.43": "141.167.8.160", "141.233.145.108": "141.129.237.235", "152.163.225.39": "151.140.114.167",
    "156.29.3.236": "147.225.12.42", "165.247.96.84": "162.9.99.234", "166.107.77.190": "160.132.178.185",
    "192.102.249.13": "252.138.62.131", "192.215.32.125": "252.43.47.189", "192.233.80.103": "252.25.108.8",
    "192.41.57.43": "252.222.221.184", "193.150.244.223": "253.169.52.216", "195.205.63.100": "255.186.223.5",
    "198.200.171.101": "249.199.68.213", "198.26.132.101": "249.36.123.202", "198.36.213.5": "249.7.21.132",
    "198.51.77.238": "249.18.186.254", "199.217.79.101": "248.38.184.213", "202.49.198.20": "245.206.7.234",
    "203.12.160.252": "244.248.163.4", "204.184.162.189": "243.192.77.90", "204.202.136.230": "243.178.4.198",
    "204.29.20.4": "243.33.20.123", "205.178.38.67": "242.108.198.51", "205.188.147.153": "242.96.16.101",
    "205.188.248.25": "242.96.88.27", "205.245.121.43": "242.21.121.163", "207.105.49.5": "241.118.205.138",
    "207.135.65.238": "241.202.129.222", "207.155.9.214": "241.220.250.22", "207.188.7.45": "241.255.249.220",
    "207.25.71.27": "241.33.119.156", "207.33.151.131": "241.1.233.131", "208.147.89.59": "227.237.98.191",
    "208.234.120.210": "227.154.67.17", "208.28.185.184": "227.39.94.90", "208.52.56.122": "227.8.63.165",
    "209.12.231.7": "226.243.167.8", "209.238.72.3": "226.6.119.243", "209.246.74.109": "226.22.124.76",
    "209.68.60.238": "226.184.220.233", "209.85.249.6": "226.170.70.6", "212.120.124.31": "228.135.163.231",
    "212.146.8.236": "228.19.4.234", "212.186.227.154": "228.59.98.98", "212.204.172.118": "228.71.195.169",
    "212.206.130.201": "228.69.242.193", "216.148.237.145": "235.84.194.111", "216.157.30.252": "235.89.31.26",
    "216.184.159.48": "235.96.225.78", "216.227.10.221": "235.28.253.36", "216.254.18.172": "235.7.16.162",
    "216.32.132.250": "235.192.139.38", "216.35.217.178": "235.195.157.81", "24.0.250.221": "100.15.198.226",
    "24.13.62.231": "100.2.192.247", "24.14.213.138": "100.1.42.141", "24.5.0.80": "100.9.15.210",
    "24.7.198.88": "100.10.6.25", "24.94.26.44": "100.88.228.35", "38.15.67.68": "64.3.66.187",
    "4.3.88.225": "124.60.155.63", "63.14.55.111": "95.9.215.7", "63.195.241.44": "95.179.238.44",
    "63.97.7.140": "95.97.9.123", "64.14.118.196": "0.255.183.58", "64.34.154.117": "0.221.154.117",
    "64.39.15.238": "0.219.7.41", "10.185.25.118": "117.161.29.118",
}  # fmt: skip
"""Its addresses, true and anonymised."""
VECTORS6 = {
    "::1": "78ff:f001:9fc0:20df:8380:b1f1:704:ed",
    "::2": "78ff:f001:9fc0:20df:8380:b1f1:704:ef",
    "::ffff": "78ff:f001:9fc0:20df:8380:b1f1:704:f838",
    "2001:db8::1": "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e",
    "2001:db8::2": "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1c",
    "::ffff:1.2.3.4": "78ff:f001:9fc0:20df:8380:7db:1909:df1b",
}
"""The extension to IPv6 as other implementations have it (Yawning's cryptopan, yacryptopan); the same key."""

GROUP = 1 << 40
MAC48 = st.integers(0, (1 << 48) - 1)
V4 = st.integers(0, (1 << 32) - 1)
V6 = st.integers(0, (1 << 128) - 1)


def v4(pan: Anonymiser, *addresses: int) -> list[int]:
    return list(map(int, pan.v4(np.array(addresses, np.int64))))


def v6(pan: Anonymiser, *addresses: int) -> list[int]:
    words = [words_from_ip(b"\6" + address.to_bytes(16, "big"))[1:] for address in addresses]
    high, low = np.array(words, np.int64).reshape(-1, 2).T
    mapped = zip(*(part.view(np.uint64).tolist() for part in pan.v6(high.copy(), low.copy())), strict=True)
    return [left << 64 | right for left, right in mapped]


def mac(pan: Anonymiser, *addresses: int) -> list[int]:
    return list(map(int, pan.mac(np.array(addresses, np.int64))))


def common(left: int, right: int, bits: int) -> int:
    """How many leading bits are the same."""
    return bits - (left ^ right).bit_length()


def test_the_sample_trace_of_the_authors() -> None:
    pan = Anonymiser(KEY)
    truth = [int(ipaddress.ip_address(text)) for text in VECTORS]
    expected = [int(ipaddress.ip_address(text)) for text in VECTORS.values()]
    assert v4(pan, *truth) == expected
    assert [v4(pan, one)[0] for one in truth] == expected


def test_ipv6_as_others_have_it() -> None:
    truth = [int(ipaddress.ip_address(text)) for text in VECTORS6]
    assert v6(Anonymiser(KEY), *truth) == [int(ipaddress.ip_address(text)) for text in VECTORS6.values()]


@pytest.mark.slow
@pytest.mark.parametrize(("mapped", "addresses", "bits"), [(v4, V4, 32), (v6, V6, 128), (mac, MAC48, 48)])
@pytest.mark.hypothesis
def test_common_prefixes_keep_their_length(mapped: Any, addresses: Any, bits: int) -> None:
    pan = Anonymiser(KEY, cache_size=16)

    @given(addresses, st.integers(0, bits - 1), addresses)
    def check(first: int, length: int, rest: int) -> None:
        # The second shares exactly `length` bits with the first.
        below = bits - length - 1
        second = ((first >> below) ^ 1) << below | rest & ((1 << below) - 1)
        assert common(first, second, bits) == length
        left, right = mapped(pan, first, second)
        if bits != 48 or length != 7:  # that is the group bit, which stays in both
            assert common(left, right, bits) == length
        assert mapped(pan, second, first) == [right, left]

    check()


@pytest.mark.slow
@given(st.lists(MAC48, min_size=1))
def test_the_group_bit_of_ethernet_stays(addresses: list[int]) -> None:
    assert [one & GROUP for one in mac(Anonymiser(KEY), *addresses)] == [one & GROUP for one in addresses]


@pytest.mark.slow
def test_keys_give_other_addresses_and_other_processes_the_same() -> None:
    code = "import numpy, sys; from lowwater.capture.content.retention import key_digest;"
    code += "from lowwater.capture.content.stored import Anonymiser;"
    code += "k = bytes.fromhex(sys.argv[1]);"
    code += "a = Anonymiser(k); numbers = numpy.array([1, 2]), numpy.array([3]);"
    code += "print(a.v4(numbers[0]).tolist(), a.mac(numbers[1]).tolist(), key_digest(k))"
    out = subprocess.run([sys.executable, "-c", code, KEY.hex()], capture_output=True, text=True, check=True).stdout
    assert out.strip() == f"{v4(Anonymiser(KEY), 1, 2)} {mac(Anonymiser(KEY), 3)} {key_digest(KEY)}"
    for changed in (0, 31):
        other = bytearray(KEY)
        other[changed] ^= 1
        assert v4(Anonymiser(bytes(other)), *range(50)) != v4(Anonymiser(KEY), *range(50))
        assert mac(Anonymiser(bytes(other)), *range(50)) != mac(Anonymiser(KEY), *range(50))
        assert key_digest(bytes(other)) != key_digest(KEY)


ADDRESSED = pa.schema(
    [*(pa.field(name, pa.int64()) for name in ("srcMAC", "destMAC")), pa.field("ipversion", pa.int32()),
     *(pa.field(f"{end}IP_{word}", pa.int64()) for end in ("src", "dest") for word in ("hi", "lo")),
     pa.field("inner_ipversion", pa.int32()),
     *(pa.field(f"inner_{end}IP_{word}", pa.int64()) for end in ("src", "dest") for word in ("hi", "lo")),
     pa.field("arp_ipversion", pa.int32()),
     *(pa.field(f"arp_{end}IP_{word}", pa.int64()) for end in ("src", "dest") for word in ("hi", "lo")),
     pa.field("srcPort", pa.int32())],
)  # fmt: skip


def header(prefix: str, source: str, destination: str | None) -> dict[str, int]:
    version, src_hi, src_lo = words_from_ip(pack_ip(source))
    found = {f"{prefix}ipversion": version, f"{prefix}srcIP_hi": src_hi, f"{prefix}srcIP_lo": src_lo}
    if destination:  # a cut header has only its first address
        _, found[f"{prefix}destIP_hi"], found[f"{prefix}destIP_lo"] = words_from_ip(pack_ip(destination))
    return found


ROWS: list[dict[str, int]] = [
    header("", "128.11.68.132", "129.118.74.4")
    | {"srcMAC": 0x0200_0000_0001, "destMAC": 0xFFFF_FFFF_FFFF, "srcPort": 9},
    header("", "2001:db8::1", "::1") | header("inner_", "128.11.68.132", "129.118.74.4"),
    header("arp_", "128.11.68.132", "129.118.74.4") | {"srcMAC": 0x0200_0000_0001},
    header("", "128.11.68.132", "129.118.74.4") | header("inner_", "2001:db8::1", "::1"),
    header("", "::1", None),
    {"srcPort": 7},
]
EXPECTED: list[dict[str, int]] = [
    header("", VECTORS["128.11.68.132"], VECTORS["129.118.74.4"]),
    header("", VECTORS6["2001:db8::1"], VECTORS6["::1"])
    | header("inner_", VECTORS["128.11.68.132"], VECTORS["129.118.74.4"]),
    header("arp_", VECTORS["128.11.68.132"], VECTORS["129.118.74.4"]),
    header("", VECTORS["128.11.68.132"], VECTORS["129.118.74.4"])
    | header("inner_", VECTORS6["2001:db8::1"], VECTORS6["::1"]),
    header("", VECTORS6["::1"], None),
    {},
]


def test_a_batch_of_all_kinds_of_addresses() -> None:
    pan = Anonymiser(KEY)
    one, everyone = mac(pan, 0x0200_0000_0001, 0xFFFF_FFFF_FFFF)
    expected = [
        row | {name: old[name] for name in ("srcPort",) if name in old} for row, old in zip(EXPECTED, ROWS, strict=True)
    ]
    expected[0] |= {"srcMAC": one, "destMAC": everyone}
    expected[2] |= {"srcMAC": one}
    batch = pa.RecordBatch.from_pylist(ROWS, ADDRESSED)
    mapped = pan.batch(batch)
    assert mapped == pa.RecordBatch.from_pylist(expected, ADDRESSED)
    assert [column.null_count for column in mapped.columns] == [column.null_count for column in batch.columns]
    assert pan.batch(batch.slice(2, 3)) == mapped.slice(2, 3)
    assert pan.batch(batch.slice(0, 0)).num_rows == 0
    # An address whose family nobody knows is not let through as it is.
    orphan = pa.RecordBatch.from_pylist([{"srcIP_hi": 0, "srcIP_lo": 5}], ADDRESSED)
    assert pan.batch(orphan).column("srcIP_lo").to_pylist() == [None]


def key_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("content", [KEY, KEY.hex().encode(), b" " + KEY.hex().upper().encode() + b"\r\n"])
def test_both_forms_of_a_key(tmp_path: Path, content: bytes) -> None:
    assert read_key(key_file(tmp_path, content)) == KEY
    assert read_key(key_file(tmp_path, content, 0o440)) == KEY


@pytest.mark.parametrize("content", [b"", KEY[:31], KEY + b"\n", KEY.hex().encode()[:-1], b"z" * 64, b"0" * 5_000])
def test_what_is_no_key(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError, match="no key: neither 32 bytes nor 64 hexadecimal digits"):
        read_key(key_file(tmp_path, content))


def test_a_key_that_is_missing_open_to_all_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent: the key cannot be read: No such file"):
        read_key(tmp_path / "absent")
    with pytest.raises(ConfigError, match="open to every user"):
        read_key(key_file(tmp_path, KEY, 0o604))
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_key(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key("a\0b")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(ConfigError, match="no key"):
        read_key(pipe)
    with pytest.raises(ValueError, match="32 bytes"):
        Anonymiser(KEY[:16])
