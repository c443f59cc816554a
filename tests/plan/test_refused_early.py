"""Mistakes that were refused late, or with a message that did not say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.errors import QueryError
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from tests.capturemaker import pcap_bytes, udp
from tests.replay.support import lowwater


def _error(text: str) -> str:
    with pytest.raises(QueryError) as found:
        plan_texts([("q.gsql", text)], Links())
    return str(found.value)


def test_a_window_of_no_length_is_the_only_mistake() -> None:
    for name in ("wid", "window_start", "window_end"):
        said = _error(f"SELECT {name}, count(*) AS n FROM TCP [RANGE 0 s]")
        assert "RANGE and SLIDE are whole numbers" in said and "unknown" not in said
    assert "unknown column wid" in _error("SELECT wid, count(*) AS n FROM TCP GROUP BY time/(60-60) AS tb")


@pytest.mark.parametrize(
    ("divisor", "fault"),
    [
        ("(60-60)", "time/(60 - 60) is no epoch, since it divides by 0"),
        ("(30*2)", "time/(30*2) is no epoch, since 30*2 is not written as one number, 60"),
    ],
)
def test_an_epoch_of_computed_length_says_what_is_wrong(divisor: str, fault: str) -> None:
    assert fault in _error(f"SELECT tb, count(*) FROM TCP GROUP BY time/{divisor} AS tb")


def test_a_division_by_zero_has_a_note() -> None:
    notes = plan_texts([("q.gsql", "SELECT time FROM TCP WHERE len/0 > 1 OR len % 0 = 1")], Links()).notes
    assert [str(note) for note in notes] == [
        "1:28: len/0 is NULL in every row: it divides by 0",
        "1:41: len%0 is NULL in every row: it divides by 0",
    ]
    assert not plan_texts([("q.gsql", "SELECT time FROM TCP WHERE len/1 > 1 AND 0/len = 0")], Links()).notes


def test_a_sum_beyond_64_bits_names_its_line(tmp_path: Path) -> None:
    capture, query = tmp_path / "a.pcap", tmp_path / "q.gsql"
    capture.write_bytes(pcap_bytes([(at * 10**9, udp("10.0.0.1", "10.0.0.2", 1, 53)) for at in (1, 2)]))
    query.write_text("SELECT tb,\n  sum(9223372036854775807) AS s\nFROM a.UDP GROUP BY time/60 AS tb")
    said = lowwater("run", query, "--capture", f"a={capture}", "--engine", "reference", "--out", tmp_path / "out")
    assert said.code == 1 and "query q, at 2:3, column s: the sum of a group does not fit 64 bits" in said.err
