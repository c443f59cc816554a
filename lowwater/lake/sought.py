"""The values that an erasure looks for, wherever they stand: in packets, in columns of files, in texts and in bytes."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, summarize_address_range
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from lowwater.catalog import expr as ex
from lowwater.catalog.schemas import ADDRESSES
from lowwater.catalog.values import format_ip, format_mac
from lowwater.storage import paths

Network = IPv4Network | IPv6Network

LEAST_BITS = {4: 24, 6: 48}
"""Bits of the shortest network that is looked for in bytes of frames: a shorter one is in bytes of any content."""

_IPV4 = re.compile(rb"(?<![0-9.])[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?![0-9]|\.[0-9])")
_IPV6 = re.compile(
    rb"(?<![0-9A-Fa-f:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:(?<=:)[0-9.]{7,15})?(?![0-9A-Fa-f:])"
)


@dataclass(frozen=True)
class Sought:
    """Values by which a person or a host is known. None of them stands in a lake from which they were erased.

    Attributes:
        networks: addresses are networks of one.
        macs: as the catalog has them.
    """

    networks: tuple[Network, ...] = ()
    macs: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.networks or self.macs or self.texts)

    @property
    def names(self) -> list[str]:
        """The values as texts."""
        addresses = [str(each[0] if each.num_addresses == 1 else each) for each in self.networks]
        return [*addresses, *map(format_mac, self.macs), *self.texts]

    @property
    def unseen(self) -> list[str]:
        """The networks that are not looked for in the bytes of frames."""
        return [str(each) for each in self.networks if each.prefixlen < LEAST_BITS[each.version]]

    # In values

    def has_address(self, version: int, number: int) -> bool:
        return any(each.version == version and int(each[0]) <= number <= int(each[-1]) for each in self.networks)

    def in_text(self, data: bytes) -> bool:
        """Whether a text, UTF-8, has one of the values in any spelling; an address also as a whole decimal number."""
        if any(each.search(data) for each in self._literals):
            return True
        for pattern, version in ((_IPV4, 4), (_IPV6, 6)):
            if any(each.version == version for each in self.networks):
                for found in pattern.finditer(data):
                    if (address := _address(found[0])) is not None and self.has_address(version, int(address)):
                        return True
        return False

    def in_bytes(self, data: bytes) -> bool:
        """Whether bytes of any meaning, as those of a frame, have one of the values: as bytes or as text."""
        return any(each.search(data) for each in self._packed) or self.in_text(data)

    @cached_property
    def _literals(self) -> list[re.Pattern[bytes]]:
        numbers = [int(each[0]) for each in self.networks if each.num_addresses == 1] + [*self.macs]
        texts = [part for text in self.texts for part in {text, json.dumps(text)[1:-1]}]
        pairs = [format_mac(mac).split(":") for mac in self.macs]
        return [
            *(re.compile(rb"(?<![0-9.])%d(?![0-9.])" % number) for number in numbers if number > 0xFFFF),
            *(re.compile(re.escape(text.encode())) for text in texts),
            *(re.compile("[:-]".join(pair).encode(), re.I) for pair in pairs),
        ]

    @cached_property
    def _packed(self) -> list[re.Pattern[bytes]]:
        found = [_prefix(each) for each in self.networks if each.prefixlen >= LEAST_BITS[each.version]]
        return [*found, *(re.compile(re.escape(mac.to_bytes(6, "big")), re.S) for mac in self.macs)]

    # In columns

    def rows(self, batch: pa.RecordBatch | pa.Table) -> NDArray[np.bool_]:
        """Returns which rows of packets, of other records or of any table have one of the values in any column."""
        marks = np.zeros(batch.num_rows, np.bool_)
        for _, mask in self.columns(batch):
            marks |= mask
        return marks

    def columns(self, batch: pa.RecordBatch | pa.Table) -> Iterator[tuple[str, NDArray[np.bool_]]]:
        """Yields each column that has one of the values, and in which rows."""
        names = batch.schema.names
        words = set[str]()
        for name, version, high, low in _addresses(names):
            words |= {high, low}
            mask = self._in_words(*(batch.column(part) for part in (version, high, low)))
            if mask.any():
                yield name, mask
        raw = "position" in names and "arrival" in names  # packets: their other numbers are no addresses
        for name, column in zip(names, batch.columns, strict=True):
            numbers = name not in words and (not raw or "MAC" in name or name.startswith("mac:"))
            mask = self._in_column(column, numbers)
            if mask.any():
                yield name, mask

    def _in_words(self, version: Any, high: Any, low: Any) -> NDArray[np.bool_]:
        families = pc.fill_null(version, 0).to_numpy(zero_copy_only=False)
        highs, lows = (
            pc.fill_null(each, 0).to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
            for each in (high, low)
        )
        known = pc.is_valid(low).to_numpy(zero_copy_only=False)
        marks = np.zeros(len(families), np.bool_)
        for network in self.networks:
            first, last = int(network[0]), int(network[-1])
            if network.version == 4:
                inside = (lows & np.uint64(0xFFFFFFFF) >= first) & (lows & np.uint64(0xFFFFFFFF) <= last)
            else:
                ends = [(np.uint64(each >> 64), np.uint64(each & (1 << 64) - 1)) for each in (first, last)]
                inside = (highs > ends[0][0]) | ((highs == ends[0][0]) & (lows >= ends[0][1]))
                inside &= (highs < ends[1][0]) | ((highs == ends[1][0]) & (lows <= ends[1][1]))
            marks |= inside & (families == network.version) & known
        return marks

    def _in_column(self, column: Any, numbers: bool) -> NDArray[np.bool_]:
        kind = column.type
        if pa.types.is_struct(kind):
            marks = np.zeros(len(column), np.bool_)
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            for number in range(kind.num_fields):
                parts = [self._in_column(chunk.field(number), numbers) for chunk in chunks]
                marks |= np.concatenate(parts) if parts else marks
            return marks
        if pa.types.is_list(kind) or pa.types.is_map(kind) or pa.types.is_large_list(kind):
            texts = [json.dumps(value, default=str).encode() for value in column.to_pylist()]
            return np.array([self.in_text(text) for text in texts], np.bool_)
        if pa.types.is_integer(kind):
            wanted = [int(each[0]) for each in self.networks if each.num_addresses == 1 and each.version == 4]
            wanted = [each for each in [*wanted, *self.macs] if each > 0xFFFF] if numbers else []
            if not wanted or kind.bit_width < 32:
                return np.zeros(len(column), np.bool_)
            return _marks(pc.is_in(column.cast(pa.int64(), safe=False), pa.array(wanted, pa.int64())))
        if pa.types.is_dictionary(kind):
            return self._in_column(column.cast(kind.value_type), numbers)
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not text and not pa.types.is_binary(kind) and not pa.types.is_large_binary(kind):
            return np.zeros(len(column), np.bool_)
        test: Callable[[bytes], bool] = self.in_text if text else self.in_bytes
        values = pc.unique(column.cast(pa.large_binary()))
        # All of them at once first: nearly all columns have none.
        whole = b"\n".join(value for value in values.to_pylist() if value is not None)
        if not test(whole):
            return np.zeros(len(column), np.bool_)
        chosen = [value for value in values.to_pylist() if value is not None and test(value)]
        return _marks(pc.is_in(column.cast(pa.large_binary()), pa.array(chosen, pa.large_binary())))

    # In files

    def in_file(self, path: PurePath) -> dict[str, int]:
        """Looks at all bytes of a file, of a parquet file decompressed. Returns how many rows of each column have one
        of the values; of other files the empty name stands for all of it.
        Raises OSError if it cannot be read."""
        if path.name.endswith(".parquet"):
            found: dict[str, int] = {}
            with pq.ParquetFile(paths.local(path)) as file:
                for batch in file.iter_batches(1 << 16, use_threads=False):
                    for name, mask in self.columns(batch):
                        found[name] = found.get(name, 0) + int(np.count_nonzero(mask))
            return found
        data = paths.read(path)
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return {"": 1} if self.in_text(data) else {}


def sought_by(condition: ex.Expr | None) -> tuple[Sought, list[ex.Expr]]:
    """Finds the values whose every mention a condition selects: those of its alternatives (OR) that compare a column
    with a value, or with a network. Returns them, and the alternatives that tell no such value."""
    networks: dict[Network, None] = {}
    macs: dict[int, None] = {}
    texts: dict[str, None] = {}
    rest = []
    for part in _alternatives(condition):
        if (span := _range(part)) is not None:
            networks.update(dict.fromkeys(span))
        elif isinstance(part, ex.Binary) and part.op == "=" and (value := _constant(part)) is not None:
            if value.type is ex.Type.MAC:
                macs[int(value.value)] = None  # type: ignore[arg-type]
            else:
                texts[str(value.value)] = None
        elif isinstance(part, ex.OneOf) and part.kind is ex.Type.IP:
            networks.update(dict.fromkeys(each for value in part.values for each in _network(value, value)))
        elif isinstance(part, ex.OneOf) and part.kind is ex.Type.STRING:
            texts.update(dict.fromkeys(map(str, part.values)))
        else:
            rest.append(part)
    return Sought(tuple(networks), tuple(macs), tuple(text for text in texts if text)), rest


def _alternatives(condition: ex.Expr | None) -> Iterator[ex.Expr]:
    if isinstance(condition, ex.Binary) and condition.op == "OR":
        yield from _alternatives(condition.left)
        yield from _alternatives(condition.right)
    elif condition is not None:
        yield condition


def _constant(part: ex.Binary) -> ex.Const | None:
    for one, other in ((part.left, part.right), (part.right, part.left)):
        if isinstance(one, ex.Column) and isinstance(other, ex.Const) and other.type in (ex.Type.MAC, ex.Type.STRING):
            return other
    return None


def _range(part: ex.Expr) -> list[Network] | None:
    """The networks of `column = address` and of `column <<= network`, which is bound as two comparisons."""
    bounds = [part.left, part.right] if isinstance(part, ex.Binary) and part.op == "AND" else [part]
    found: dict[str, Any] = {}
    columns = set[str]()
    for each in bounds:
        if not isinstance(each, ex.Binary) or not isinstance(each.left, ex.Column) or each.left.type is not ex.Type.IP:
            return None
        if not isinstance(each.right, ex.Const) or each.right.value is None:
            return None
        columns.add(each.left.name)
        found[each.op] = each.right.value
    if len(columns) != 1 or found.keys() not in ({"="}, {">=", "<="}):
        return None
    low, high = (found["="],) * 2 if "=" in found else (found[">="], found["<="])
    return _network(low, high)


def _network(low: Any, high: Any) -> list[Network]:
    first, last = (ip_address(format_ip(value)) for value in (low, high))
    if first.version != last.version or int(first) > int(last):
        return []
    return list(summarize_address_range(first, last))


def _addresses(names: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yields the addresses among stored columns: name, and the columns of its version, upper and lower word."""
    there = set(names)
    every = [(name, version, f"{name}_hi", f"{name}_lo") for name, version in ADDRESSES.items()]
    fields = [name.partition(":")[2] for name in names if name.startswith("ip.low:")]
    every += [(f"ip:{name}", f"ip.version:{name}", f"ip.high:{name}", f"ip.low:{name}") for name in fields]
    for name, version, high, low in every:
        if {version, low} <= there:
            yield name, version, high if high in there else low, low


def _address(text: bytes) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.decode())
    except ValueError:
        return None


def _prefix(network: Network) -> re.Pattern[bytes]:
    """A pattern of the bytes of the addresses of a network."""
    packed, whole, more = network.network_address.packed, network.prefixlen // 8, network.prefixlen % 8
    parts = [re.escape(packed[:whole])]
    if more:
        first = packed[whole]
        parts.append(b"[%s-%s]" % (re.escape(bytes([first])), re.escape(bytes([first | (1 << 8 - more) - 1]))))
    parts.append(b"[\x00-\xff]" * (len(packed) - whole - bool(more)))
    return re.compile(b"".join(parts), re.S)


def _marks(values: Any) -> NDArray[np.bool_]:
    marks: NDArray[np.bool_] = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return marks
