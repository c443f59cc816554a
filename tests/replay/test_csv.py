"""CSV as Python's own writer has it, whoever writes the batch; addresses as Python's own library has them."""

from __future__ import annotations

import csv
import io
import ipaddress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.expr import Type
from lowwater.catalog.values import format_mac
from lowwater.columns.addresses import published
from lowwater.replay.row_files import write_csv

TEXTS = st.none() | st.text() | st.sampled_from(["", " ", ",", '"', "\n", "\r", "a,b", 'say "a"', "plain", "é"])
KINDS: dict[pa.DataType, Any] = {
    pa.int64(): st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float64(): st.none() | st.floats(),
    pa.bool_(): st.none() | st.booleans(),
    pa.string(): TEXTS.filter(lambda text: text is None or text.isprintable() or text in "\n\r"),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*(KINDS[kind] for kind in kinds)), max_size=6))
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.table(columns, names=[f"c{at}" for at in range(len(kinds))])


def text_of(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value).removesuffix(".0") if isinstance(value, float) else value


@given(tables())
def test_csv_is_what_python_writes(tmp_path_factory: Any, table: pa.Table) -> None:
    path: Path = tmp_path_factory.mktemp("csv") / "q.csv"
    write_csv(table, path)
    expected = io.StringIO()
    writer = csv.writer(expected, lineterminator="\n")
    writer.writerow(table.column_names)
    writer.writerows([text_of(value) for value in row.values()] for row in table.to_pylist())
    assert path.read_bytes().decode() == expected.getvalue()


WORDS = st.lists(st.sampled_from([0, 1, 0xF, 0x10, 0xFF, 0x100, 0xFFF, 0x1000, 0xFFFF]), min_size=8, max_size=8)
IPS = st.one_of(
    st.none(),
    st.binary(min_size=4, max_size=4).map(lambda four: b"\x04" + four),
    st.one_of(st.binary(min_size=16, max_size=16), WORDS.map(lambda w: b"".join(x.to_bytes(2, "big") for x in w))).map(
        lambda six: b"\x06" + six
    ),
)


def shown(value: bytes | None) -> str | None:
    return None if value is None else str(ipaddress.ip_address(value[1:]))


@pytest.mark.slow
@given(st.lists(IPS, max_size=20), st.integers(0, 5), st.integers(0, 5))
def test_addresses_are_those_of_the_library(values: list[bytes | None], first: int, less: int) -> None:
    found = published(pa.array(values, pa.binary())[first : max(first, len(values) - less)], Type.IP)
    found.validate(full=True)
    assert found.to_pylist() == [shown(value) for value in values[first : max(first, len(values) - less)]]


@given(st.lists(st.none() | st.integers(0, (1 << 48) - 1), max_size=9))
def test_macs_are_those_of_one_value(values: list[int | None]) -> None:
    found = published(pa.array(values, pa.int64()), Type.MAC)
    found.validate(full=True)
    assert found.to_pylist() == [None if value is None else format_mac(value) for value in values]
