"""Shipped functions and aggregates give the values of independent oracles; states merge as their input does."""

from __future__ import annotations

import fnmatch
import ipaddress
import math
import pickle
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.functions import AggregateFunction, Function
from lowwater.catalog.values import Type, pack_ip
from lowwater.errors import ValueOverflowError

INT64 = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats()
LATIN = st.text(st.characters(max_codepoint=255), max_size=30)


def function(name: str, *types: Type, predicate: bool = False) -> Function:
    known = [f for f in CATALOG.functions if (f.name, f.parameters, f.predicate) == (name, types, predicate)]
    assert len(known) == 1, (name, types)
    return known[0]


def call(name: str, *values: Any, predicate: bool = False) -> Any:
    types = {bool: Type.BOOL, int: Type.INT, float: Type.FLOAT, str: Type.STRING, bytes: Type.IP}
    found = function(name, *(types[type(value)] for value in values), predicate=predicate)
    assert found.value is not None
    return found.value(*values)


def aggregate(name: str, *types: Type) -> AggregateFunction:
    known = [a for a in CATALOG.aggregates if (a.name, a.parameters) == (name, types)]
    assert len(known) == 1, (name, types)
    return known[0]


def fold(made: Any, rows: Sequence[Any]) -> Any:
    state = made.initialize()
    for row in rows:
        state = made.iterate(state, *(row if isinstance(row, tuple) else (row,)))
    return state


def compute(name: str, types: Sequence[Type], rows: Sequence[Any], *extra: Any) -> Any:
    make = aggregate(name, *types).make
    assert make is not None
    made = make()
    return made.output(fold(made, rows), *extra)


def test_every_function_has_a_value_and_takes_its_parameters() -> None:
    sample = {
        Type.BOOL: True, Type.INT: 1, Type.FLOAT: 0.5, Type.IP: pack_ip("10.0.0.1"), Type.STRING: "1", Type.MAC: 5,
        Type.INSTANT: 5,
    }  # fmt: skip
    python = {Type.BOOL: bool, Type.INT: int, Type.FLOAT: float, Type.IP: bytes, Type.STRING: str, Type.MAC: int}
    python[Type.INSTANT] = int
    words = {"local_day": "Europe/Berlin", "date_trunc": "month", "date_part": "day"}
    for each in CATALOG.functions:
        if each.files:
            continue
        assert each.value is not None
        word = {Type.STRING: words[each.name]} if each.name in words else {}
        value = each.value(*({**sample, **word}[kind] for kind in each.parameters))
        assert type(value) is python[each.returns] or (value is None and each.partial), each


def test_every_aggregate_has_the_four_functions() -> None:
    for each in CATALOG.aggregates:
        assert (each.make is None) == (each.native is not None), each
        if each.make is not None:
            made = each.make()
            state = made.initialize()
            assert pickle.loads(pickle.dumps(state)) == state
            made.output(state, *([0.5] * (len(each.parameters) - each.taken)))
            made.destroy(state)
            # A merge would have to know the order of its two states.
            assert not (each.ordered and hasattr(made, "merge")), each
            assert not (each.running and each.sub), each


def test_split_aggregates_have_their_parts() -> None:
    by_call = {(a.name, a.parameters): a for a in CATALOG.aggregates}
    for each in CATALOG.aggregates:
        assert bool(each.sub) == bool(each.sup)
        if each.sub:
            lower = by_call[each.sub, each.parameters]
            assert by_call[each.sup, (lower.returns,)].returns is each.returns


@given(INT64, INT64)
def test_minima_and_comparisons(left: int, right: int) -> None:
    for prefix in ("ULL", "LL", "U", "L"):
        assert call(f"{prefix}MIN", left, right) == min(left, right)
        assert call(f"{prefix}MAX", left, right) == max(left, right)
    compared = [call(name, left, right) for name in ("EQ", "GEQ", "GE", "LEQ", "LE")]
    assert compared == [int(x) for x in (left == right, left >= right, left > right, left <= right, left < right)]


@given(st.ip_addresses(), st.ip_addresses())
def test_minima_of_addresses(left: Any, right: Any) -> None:
    a, b = (pack_ip(str(address).partition("%")[0]) for address in (left, right))
    first = sorted([(left.version, left.packed, a), (right.version, right.packed, b)])
    assert (call("UMIN", a, b), call("UMAX", a, b)) == (first[0][2], first[1][2])


@given(FLOATS)
def test_casts_of_floats(value: float) -> None:
    whole = math.trunc(value) if math.isfinite(value) else None
    expected = whole if whole is not None and -(2**63) <= whole < 2**63 else None
    assert call("INT", value) == call("ULLONG", value) == expected


@given(FLOATS)
def test_mathematics(value: float) -> None:
    for name in ("sqrt", "log", "log2", "log10", "sin", "atan", "floor", "ceil", "trunc"):
        with np.errstate(all="ignore"):
            expected = float(getattr(np, "arctan" if name == "atan" else name)(value))
        result = call(name, value)
        if result is None:
            assert not math.isfinite(expected), (name, value)
        else:
            assert result == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_other_numbers() -> None:
    assert call("pow", 2.0, 10.0) == 1024.0
    assert call("pow", 0.0, -1.0) is None
    assert call("fmod", -7.0, 3.0) == math.fmod(-7, 3)
    assert call("IF", True, "yes", "no") == "yes"
    assert call("if_else_i", 0, 1, 2) == 2
    assert call("FMAX", 1.5, 2.5) == 2.5
    assert call("UMAX", 1.5, 2.5) == 2
    assert call("INT", pack_ip("10.0.0.1")) == int(ipaddress.ip_address("10.0.0.1"))
    assert call("to_llong", pack_ip("2001:db8::1")) is None
    assert call("endian_swap_ui", 0x01020304) == 0x04030201


@given(LATIN, LATIN, st.integers(-3, 35))
def test_predicates_of_strings(text: str, other: str, at: int) -> None:
    text += other
    octets = text.encode("latin-1")
    part = other.encode("latin-1")
    for predicate in (True, False):
        assert call("str_exists_substr", text, other, predicate=predicate) == (part in octets)
        assert call("str_match_start", text, other, predicate=predicate) == (octets[: len(part)] == part)
        assert call("str_compare", text, other, predicate=predicate) == (octets == part)
        there = 0 <= at <= len(octets) - len(part) and octets[at : at + len(part)] == part
        assert call("str_match_offset", at, other, text, predicate=predicate) == there
    inside = 0 <= at < len(octets)
    assert call("byte_match_offset", at, octets[at] if inside else 0, text) == int(inside)
    word = octets[at : at + 4] if at >= 0 else b""
    found = call("net_word_match_offset", at, int.from_bytes(word, "big"), text)
    assert found == int(len(word) == 4)
    assert call("little_endian_word_match_offset", at, int.from_bytes(word, "little"), text) == found


@given(LATIN, st.integers(-2, 35))
def test_parts_of_strings(text: str, length: int) -> None:
    assert call("str_truncate", text, length) == (None if length < 0 else "".join(list(text)[:length]))
    assert call("str_suffix", text, length) == (None if length < 0 else text[::-1][:length][::-1])
    assert bytes.fromhex(call("to_hex_string", text)) == text.encode("latin-1")


@given(st.lists(st.text("ab", max_size=3), max_size=5), st.integers(-1, 6))
def test_entries_of_lists(entries: list[str], index: int) -> None:
    expected = (entries or [""])[index] if 0 <= index < len(entries or [""]) else None
    assert call("get_list_entry", "|".join(entries), "|", index) == expected


@given(st.lists(st.none() | st.integers(0, 10**9), max_size=6))
def test_sums_of_lists(entries: list[int | None]) -> None:
    text = ",".join("" if each is None else str(each) for each in entries)
    assert call("sum_uint_in_list", text, ",") == sum(each or 0 for each in entries)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("to_llong", " -12 ", -12), ("to_llong", "12a", None), ("to_llong", str(2**63), None), ("to_llong", "", None),
        ("to_llong", "1" * 10_000, None), ("strtoi", "port 443 of 2", 443), ("strtoi", "none", None),
        ("strtoip", "10.0.0.1", pack_ip("10.0.0.1")), ("strtoip", "10.0.0.256", None),
        ("strtoip_c", "::1", pack_ip("::1")), ("string_hash", "123456789", 0xCBF43926),
        ("string_hash_long", "", -1_913_276_303_279_113_004),
    ],
)  # fmt: skip
def test_numbers_in_strings(name: str, text: str, value: int | bytes | None) -> None:
    if name == "string_hash_long":
        assert call(name, text) == call(name, text) != call(name, "a")
    else:
        assert call(name, text) == value


def test_a_list_with_what_is_no_number_fails() -> None:
    assert call("sum_uint_in_list", "1|x", "|") is None
    assert call("sum_uint_in_list", "1|-2", "|") is None
    assert call("get_list_entry", "a|b", "", 0) is None
    assert call("get_suffix", "abc", 2) == "bc"


def _like_as_regex(pattern: str) -> str:
    return "".join({"%": ".*", "_": "."}.get(char, re.escape(char)) for char in pattern)


@given(st.text("ab%_.*(\n", max_size=10), st.text("ab%_.*(\n", max_size=6))
def test_like(text: str, pattern: str) -> None:
    assert call("like", text, pattern) == bool(re.fullmatch(_like_as_regex(pattern), text, re.DOTALL))
    if "_" not in pattern and "(" not in pattern:
        glob = pattern.replace("*", "[*]").replace("%", "*")
        assert call("like", text, pattern, predicate=True) == fnmatch.fnmatchcase(text, glob)


ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "^", "$", "\\.", "a{1,2}", "(a|b)", "(?:ab)?", "(?P<n>a)", "[]a]"]
)


@given(
    st.lists(ATOMS | st.sampled_from(["a*", "b+", "|", "(b)*"]), max_size=5).map("".join),
    st.text("ab.\n]", max_size=12),
)
def test_regexes(pattern: str, text: str) -> None:
    if pattern.count("?P<n>") > 1:
        return
    oracle = re.search(pattern, text, re.MULTILINE)
    # Python's $ also matches before a last end of line, which with MULTILINE is the same.
    assert call("str_regex_match", text, pattern) == int(oracle is not None)
    assert call("str_regex_match", text, pattern, predicate=True) == (oracle is not None)
    assert call("str_extract_regex", text, pattern) == (oracle[0] if oracle else None)
    assert call("str_extract_regex_null", text, pattern) == (oracle[0] if oracle else "")
    early = re.search(pattern, text[:4], re.MULTILINE)
    assert call("str_partial_regex_match", text, pattern, 4) == int(early is not None)


@pytest.mark.parametrize("pattern", ["(", "a)(b", "(a)\\1", "(?=a)", "a{2000}", "a" * 1001, "[a", "*"])
def test_bad_patterns_are_refused(pattern: str) -> None:
    check = function("str_regex_match", Type.STRING, Type.STRING).check
    assert check is not None
    with pytest.raises(ValueError):
        check(pattern)
    assert call("str_extract_regex", "aaa", pattern) is None


def test_groups_do_not_change_what_is_extracted() -> None:
    text = "GET /x(y] HTTP/1.1\r\nHost: example.org\r\n"
    assert call("str_extract_regex", text, "^Host: ([a-z]+)\\.(?P<top>org)") == "Host: example.org"
    assert call("str_extract_regex", text, "\\Q(y\\E[]]") == "(y]"
    assert call("str_extract_regex", text, "(?i)host: [[:alpha:](]+") == "Host: example"


def test_the_cost_of_a_regex_is_bounded() -> None:
    """One that tries every way of a match would not end."""
    assert call("str_regex_match", "a" * 65_536, "(a*)*(a*)*b") == 0
    assert call("str_regex_match", "a" * 65_537, "a") is None
    assert call("like", "a", "%" * 1001) is None


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


@given(data=st.data())
def test_the_longest_prefix(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = st.sampled_from(["10.0.0.0", "10.128.0.0", "192.168.1.0", "2001:db8::", "2001:db8:1::", "::"])
    networks = {}
    for text in data.draw(st.lists(base, max_size=8)):
        width = ipaddress.ip_address(text).max_prefixlen
        networks[ipaddress.ip_network((text, data.draw(st.integers(0, width))), strict=False)] = len(networks)
    table = write(
        tmp_path_factory.mktemp("prefixes") / "table.txt",
        "# prefixes\n\n" + "".join(f"{network} | {number}\n" for network, number in networks.items()),
    )
    address = ipaddress.ip_address(data.draw(base)) + data.draw(st.sampled_from([0, 1, 300, 2**20]))
    holding = [net for net in networks if net.version == address.version and address in net]
    expected = networks[max(holding, key=lambda net: net.prefixlen)] if holding else -1
    assert call("getlpmid", pack_ip(str(address)), table) == expected
    assert call("getv6lpmid", pack_ip(str(address)), table) == expected


def test_strings_of_numbers(tmp_path: Path) -> None:
    table = write(tmp_path / "ports.csv", "# ports\n443, https\n80,http #1\n")
    assert [call("int_to_string_map", port, table) for port in (443, 80, 22)] == ["https", "http #1", ""]


MERGEABLE = [
    ("count_distinct", (Type.FLOAT,), ()), ("approx_count_distinct", (Type.FLOAT,), ()),
    ("quantile_of", (Type.FLOAT, Type.FLOAT), (0.3,)), ("median_of", (Type.FLOAT,), ()), ("extr_avg", (Type.INT,), ()),
    ("POSAVG", (Type.FLOAT,), ()), ("stddev_samp", (Type.FLOAT,), ()), ("stddev", (Type.INT,), ()),
    ("var_samp", (Type.INT,), ()), ("variance", (Type.FLOAT,), ()), ("var_pop", (Type.FLOAT,), ()),
    ("stddev_pop", (Type.INT,), ()), ("quantile_cont", (Type.FLOAT, Type.FLOAT), (0.3,)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "types", "extra"), MERGEABLE)
@given(data=st.data())
def test_merging_any_partition_gives_the_whole(
    name: str, types: tuple[Type, ...], extra: Any, data: st.DataObject
) -> None:
    small = st.floats(0, 1e6) | st.integers(0, 9).map(float) if name == "POSAVG" else FLOATS
    rows = data.draw(st.lists(INT64 if types[0] is Type.INT else small, max_size=30))
    parts: list[list[Any]] = [[], [], [], []]
    for row in rows:
        parts[data.draw(st.integers(0, 3))].append(row)
    make = aggregate(name, *types).make
    assert make is not None
    made: Any = make()
    merged = made.initialize()
    for part in data.draw(st.permutations(parts)):
        merged = made.merge(merged, pickle.loads(pickle.dumps(fold(made, part))))
    whole = made.output(fold(made, rows), *extra)
    exact = name != "POSAVG"
    assert made.output(merged, *extra) == (
        whole if exact and whole == whole else pytest.approx(whole, rel=1e-9, nan_ok=True)
    )


def test_every_mergeable_aggregate_is_tested() -> None:
    known = {a.name for a in CATALOG.aggregates if a.make is not None and not a.running and hasattr(a.make(), "merge")}
    assert known - {"arg_max", "arg_min"} == {name for name, _, _ in MERGEABLE}


@given(st.lists(INT64, min_size=1) | st.lists(st.floats(-1e100, 1e100), min_size=1))
def test_variances(values: list[float]) -> None:
    """Beside Python's exact ones; no order changes a bit."""
    kind = (Type.INT if isinstance(values[0], int) else Type.FLOAT,)
    exact = [Fraction(value) for value in values]
    assert compute("var_pop", kind, values) == float(statistics.pvariance(exact))
    assert compute("stddev_pop", kind, values) == math.sqrt(statistics.pvariance(exact))
    sample = float(statistics.variance(exact)) if len(values) > 1 else None
    assert compute("var_samp", kind, values[::-1]) == compute("variance", kind, values) == sample
    assert compute("stddev", kind, values) == (None if sample is None else math.sqrt(sample))


def test_a_variance_of_what_has_no_sum_is_null() -> None:
    for value in (math.inf, math.nan, -(2.0**961)):
        assert compute("var_pop", (Type.FLOAT,), [1.0, value, 2.0]) is None
    assert compute("stddev", (Type.FLOAT,), [2.0**900, -(2.0**900)]) is None
    assert compute("var_pop", (Type.INT,), []) is None


@given(st.lists(FLOATS, min_size=1), st.integers(0, 100).map(lambda percent: percent / 100))
def test_quantiles(values: list[float], phi: float) -> None:
    ordered = sorted(values, key=lambda value: (value != value, value))
    result = compute("quantile_of", (Type.FLOAT, Type.FLOAT), values, phi)
    rank = max(math.ceil(Fraction(str(phi)) * len(values)), 1)
    assert result == pytest.approx(ordered[rank - 1], rel=0, nan_ok=True)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.integers(0, 100).map(lambda percent: percent / 100))
def test_quantiles_between_values(values: list[float], phi: float) -> None:
    found = compute("quantile_cont", (Type.FLOAT, Type.FLOAT), values, phi)
    assert found == pytest.approx(float(np.quantile(values, phi)), rel=1e-9, abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), min_size=1))
def test_values_of_the_rows_with_the_largest_and_the_least(rows: list[tuple[int, int]]) -> None:
    for name, sign in (("arg_max", -1), ("arg_min", 1)):
        wanted = min(rows, key=lambda row: (sign * row[1], row[0]))[0]
        make = aggregate(name, Type.INT, Type.INT).make
        assert make is not None
        made: Any = make()
        one, other = (
            reduce(lambda state, row: made.iterate(state, *row), part, None) for part in (rows[::2], rows[1::2])
        )
        assert made.output(made.merge(other, one)) == wanted


@given(st.lists(INT64, min_size=1))
def test_medians(values: list[int]) -> None:
    assert compute("median_of", (Type.INT,), values) == statistics.median_low(values)
    if max(map(abs, values)) < 2**53:
        expected = np.quantile(values, 0.25, method="inverted_cdf")
        assert compute("quantile_of", (Type.INT, Type.FLOAT), values, 0.25) == expected


def test_edges_of_quantiles() -> None:
    types = (Type.INT, Type.FLOAT)
    assert compute("quantile_of", types, range(1, 101), 0.07) == 7
    assert [compute("quantile_of", types, [3, 1, 2], phi) for phi in (0, 1, 1.1, -0.1, math.nan)] == [
        1, 3, None, None, None,
    ]  # fmt: skip
    assert compute("median_of", (Type.INT,), []) is None


@given(st.lists(FLOATS))
def test_distinct(values: list[float]) -> None:
    numbers = {value for value in values if value == value}
    assert compute("count_distinct", (Type.FLOAT,), values) == len(numbers) + any(value != value for value in values)


@pytest.mark.parametrize("count", [0, 1, 10, 1_000, 50_000])
def test_the_sketch_is_near(count: int) -> None:
    state = compute("approx_count_distinct", (Type.INT,), [*range(count), *range(count // 2)])
    assert state == pytest.approx(count, rel=0.05)
    assert compute("approx_count_distinct", (Type.STRING,), map(str, range(count))) == pytest.approx(count, rel=0.05)


@given(st.lists(INT64, min_size=1))
def test_averages(values: list[int]) -> None:
    assert compute("extr_avg", (Type.INT,), values) == float(Fraction(sum(values), len(values)))
    positive = [float(value) for value in values if value >= 0]
    expected = statistics.fmean(positive) if positive else -1.0
    assert compute("POSAVG", (Type.FLOAT,), list(map(float, values))) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.text("ab", max_size=2)))
def test_order(values: list[str]) -> None:
    string = (Type.STRING,)
    assert compute("FIRST", string, values) == (values[0] if values else None)
    assert compute("LAST", string, values) == (values[-1] if values else None)
    changes = sum(1 for at, value in enumerate(values) if at == 0 or value != values[at - 1])
    assert compute("count_diff", string, values) == changes
    text = ";".join(values[next((at for at, value in enumerate(values) if value), len(values)) :])
    assert compute("CAT_aggr", (Type.STRING, Type.STRING), [(";", value) for value in values]) == text


@given(st.lists(st.integers(0, 12) | st.integers(), max_size=300), st.sampled_from([0.05, 0.1, 0.5, 1.0]))
def test_heavy_hitters(values: list[int], phi: float) -> None:
    text = compute("heavy_hitters", (Type.MAC, Type.FLOAT), [(abs(value) % 2**48, phi) for value in values])
    true = Counter(abs(value) % 2**48 for value in values)
    pairs = [pair.rpartition(":") for pair in text.split(",")] if text else []
    counts = {int(value.replace(":", ""), 16): int(count) for value, _, count in pairs}
    error = phi / 10 * len(values)
    assert {value for value, count in true.items() if count >= phi * len(values)} <= set(counts)
    assert all(true[value] >= (phi - phi / 10) * len(values) - 1e-9 for value in counts)
    assert all(true[value] - error - 1e-9 <= count <= true[value] for value, count in counts.items())
    assert [(-count, value) for value, count in counts.items()] == sorted((-count, v) for v, count in counts.items())


def epochs(name: str, types: Sequence[Type], rows: Sequence[Sequence[Any]], *extra: Any) -> list[Any]:
    """The value at the end of each epoch."""
    make = aggregate(name, *types).make
    assert make is not None
    made: Any = make()
    state, values = made.initialize(), []
    for at, epoch in enumerate(rows):
        if at and hasattr(made, "reinit"):
            state = made.reinit(pickle.loads(pickle.dumps(state)))
        for row in epoch:
            state = made.iterate(state, *(row if isinstance(row, tuple) else (row,)))
        values.append(made.output(state, *extra))
    return values


EPOCHS = st.lists(st.lists(st.integers(-9, 9), max_size=4), min_size=1, max_size=6)


@given(EPOCHS, st.integers(1, 4))
def test_moving_sums(rows: list[list[int]], size: int) -> None:
    rows[0].append(1)
    sums = [sum(epoch) for epoch in rows]
    pairs = [[(value, size) for value in epoch] for epoch in rows]
    expected = [sum(sums[max(at - size + 1, 0) : at + 1]) for at in range(len(rows))]
    assert epochs("moving_sum", (Type.INT, Type.INT), pairs) == expected
    weighted = [sum(sums[at - age] * 0.5**age for age in range(size) if at >= age) for at in range(len(rows))]
    decayed = epochs("moving_sum_exp", (Type.FLOAT, Type.INT, Type.FLOAT), pairs, 0.5)
    assert decayed == pytest.approx(weighted)


@given(EPOCHS)
def test_running_sums(rows: list[list[int]]) -> None:
    every = [[value for epoch in rows[: at + 1] for value in epoch] for at in range(len(rows))]
    assert epochs("running_sum", (Type.INT,), rows) == [sum(values) for values in every]
    assert epochs("running_array_aggr", (Type.INT,), rows) == [",".join(map(str, values)) for values in every]
    highest = []
    for at, epoch in enumerate(rows):
        before = sum(every[at - 1]) if at else 0
        highest.append(max(before + sum(epoch[:end]) for end in range(len(epoch) + 1)))
    assert epochs("running_sum_max", (Type.INT,), rows) == highest


def test_sums_beyond_64_bits_are_an_error() -> None:
    with pytest.raises(ValueOverflowError, match="running_sum: the sum 9223372036854775808 does not fit 64 bits"):
        compute("running_sum", (Type.INT,), [2**63 - 1, 1])
    assert compute("moving_sum", (Type.INT, Type.INT), [(1, 0)]) is None


def test_what_epochs_keep() -> None:
    string = (Type.STRING,)
    assert epochs("FIRST", string, [["a", "b"], ["c"]]) == ["a", "a"]
    assert epochs("LAST", string, [["a", "b"], [], ["c"]]) == ["b", "b", "c"]
    assert epochs("count_diff", string, [["a", "b"], ["b"]]) == [2, 1]
    assert epochs("CAT_aggr_diff", string, [["a", "a", "b"], ["b"], ["c"]]) == ["a:b", "b", "b:c"]
    assert epochs("CAT_aggr", (*string, *string), [[("-", "a"), ("-", "b")], [("-", "c")]]) == ["a-b", "c"]
    assert epochs("running_approx_count_distinct", (Type.INT,), [[1, 2], [2]])[1] == pytest.approx(2, rel=0.01)


@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(1, 95)), max_size=12))
def test_time_average(samples: list[tuple[float, int]]) -> None:
    window = 10
    samples = sorted({at: (value, at) for value, at in samples}.values(), key=lambda pair: pair[1])
    rows = [[(value, at, window) for value, at in samples if at // window == epoch] for epoch in range(10)]
    results = epochs("time_avg", (Type.FLOAT, Type.INT, Type.INT), rows)
    for epoch, result in enumerate(results):
        ticks = [
            [value for value, at in samples if at <= tick][-1]
            for tick in range(epoch * window, (epoch + 1) * window)
            if samples and samples[0][1] <= tick
        ]
        assert result == (pytest.approx(statistics.fmean(ticks), abs=1e-9) if ticks else None)
