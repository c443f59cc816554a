"""The graph challenge: rows of the query file are those of an independent computation over the bytes of the capture."""

from __future__ import annotations

import csv
from collections import Counter
from ipaddress import IPv4Address
from pathlib import Path

import numpy as np
import pytest

from benchmarks.exactness.inputs import generate
from benchmarks.graph.__main__ import KEY, QUERY, run
from benchmarks.graph.challenge import anonymised, statistics, valid_packets

WINDOW = 256


def test_the_formulas_on_a_matrix_by_hand() -> None:
    # 1 -> 9 three times, 1 -> 8 once, 2 -> 9 twice
    sources, destinations = np.array([1, 1, 2, 1, 1, 2, 7]), np.array([9, 9, 9, 8, 9, 9, 7])
    (row,) = statistics(sources, destinations, 6)
    assert list(row.values()) == [6, 3, 3, 2, 4, 2, 2, 5, 2]


def test_addresses_are_mapped_as_in_crypto_pan() -> None:
    # A pair of the published vectors of Crypto-PAn.
    key = bytes((21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16,
                 216, 152, 143, 131, 121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2))  # fmt: skip
    address = np.array([int(IPv4Address("128.11.68.132"))], np.int64)
    assert str(IPv4Address(int(anonymised(address, key)[0]))) == "135.242.180.132"


@pytest.mark.nightly
@pytest.mark.slow
def test_rows_are_those_of_the_challenge(tmp_path: Path) -> None:
    capture = generate(tmp_path / "captures", 1, 3)["main1"]
    query = tmp_path / "small.gsql"
    query.write_text(QUERY.read_text(encoding="utf-8").replace("131072", str(WINDOW)), encoding="utf-8")
    sources, destinations = (anonymised(addresses, KEY) for addresses in valid_packets(capture))
    assert run(capture, tmp_path / "out", query, "reference") == statistics(sources, destinations, WINDOW) != []
    with (tmp_path / "out" / "matrix.csv").open(newline="") as file:
        matrix = {(int(r["wid"]), r["srcIP"], r["destIP"]): int(r["packets"]) for r in csv.DictReader(file)}
    links = zip(sources.tolist(), destinations.tolist(), strict=True)
    assert matrix == Counter(
        (at // WINDOW, str(IPv4Address(source)), str(IPv4Address(destination)))
        for at, (source, destination) in enumerate(links)
    )
