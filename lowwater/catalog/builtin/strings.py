"""Implements functions and predicates of strings: parts, positions, lists, hashes, numbers in text.

A family of the built-in catalog. Lengths and positions count characters, which are bytes in payloads. A query may also
call a predicate as a function, which returns 1 or 0 (Tigon SQL User Manual, section 12.2).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

from lowwater.catalog.builtin.base import in_range, octets
from lowwater.catalog.builtin.files import mapped_string, prefix_id
from lowwater.catalog.builtin.numbers import address_number
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function
from lowwater.catalog.limits import NOT_EMPTY, Limits, at_least
from lowwater.catalog.values import pack_ip

# Implements functions of IP addresses: longest prefix match, and addresses in strings.


def parse_address(text: str) -> bytes | None:
    """Converts a string to an IPv4 or IPv6 address, without surrounding blanks; None if the string is no address."""
    try:
        return pack_ip(text.strip())
    except ValueError:
        return None


# One table holds prefixes of IPv4 and IPv6, so both names share one function.
ADDRESSES: tuple[Function, ...] = tuple(
    Function(
        name,
        (Type.IP, Type.STRING),
        Type.INT,
        prefix_id,
        lfta=True,
        constant=(1,),
        files=(1,),
    )
    for name in ("getlpmid", "getv6lpmid")
)


_WHOLE_NUMBER = re.compile(r"\s*([+-]?[0-9]{1,100})\s*", re.ASCII)
_FIRST_NUMBER = re.compile(r"[0-9]{1,100}", re.ASCII)
_WORD = 4


def matches_start(text: str, start: str) -> bool:
    """Whether the text begins with the string `start`."""
    return text.startswith(start)


def contains(text: str, part: str) -> bool:
    """Whether the text contains the string `part`."""
    return part in text


def equal(left: str, right: str) -> bool:
    """Whether both strings are equal."""
    return left == right


def matches_at(offset: int, part: str, text: str) -> bool:
    """Whether the text contains `part` at an offset, from 0."""
    return 0 <= offset <= len(text) - len(part) and text.startswith(part, offset)


def byte_at(offset: int, value: int, text: str) -> bool:
    """Whether the byte at an offset, from 0, is the low byte of the value."""
    return 0 <= offset < len(text) and ord(text[offset]) == value & 0xFF


def byte_from_end(offset: int, value: int, text: str) -> bool:
    """Whether the byte at an offset from the end is the low byte of the value; offset 1 is the last byte."""
    return 1 <= offset <= len(text) and ord(text[-offset]) == value & 0xFF


def word_at(order: Callable[[bytes], int], offset: int, value: int, text: str) -> bool:
    """Whether the four bytes at an offset are the low 32 bits of the value, in a byte order.

    Args:
        order: reads four bytes as a number, in big-endian or little-endian order.
        offset: the offset of the first byte, from 0.
        value: a number; the function compares its low 32 bits.
        text: a string whose characters are bytes.
    """
    word = octets(text[offset : offset + _WORD]) if offset >= 0 else b""
    return len(word) == _WORD and order(word) == value & 0xFFFFFFFF


def _big(word: bytes) -> int:
    return int.from_bytes(word, "big")


def _little(word: bytes) -> int:
    return int.from_bytes(word, "little")


def truncate(text: str, length: int) -> str | None:
    """Returns the first `length` characters, or the whole text if it is shorter; None for a negative length."""
    return text[:length] if length >= 0 else None


def suffix(text: str, length: int) -> str | None:
    """Returns the last `length` characters, or the whole text if it is shorter; None for a negative length."""
    return text[max(len(text) - length, 0) :] if length >= 0 else None


def suffix_from(text: str, position: int) -> str | None:
    """Returns the text from a position, from 1, to the end; None for a position outside the text."""
    return text[position - 1 :] if 1 <= position <= len(text) else None


def list_entry(text: str, separator: str, index: int) -> str | None:
    """Returns the entry of a list at an index, from 0; None without such an entry.

    Example:
        >>> list_entry("a|b|c", "|", 1)
        'b'
    """
    if not separator or index < 0 or text.count(separator) < index:
        return None
    return text.split(separator, index + 1)[index]


def sum_in_list(text: str, separator: str) -> int | None:
    """Returns the sum of a list of numbers. An empty entry counts 0; the result is None if an entry is no number.

    Example:
        >>> sum_in_list("34|45|56", "|"), sum_in_list("|8|", "|")
        (135, 8)
    """
    if not separator:
        return None
    total = 0
    for entry in text.split(separator):
        number = whole_number(entry) if entry else 0
        if number is None or number < 0:
            return None
        total += number
    return in_range(total)


def whole_number(text: str) -> int | None:
    """Converts a text to a number, without surrounding blanks; None if it is no number or exceeds 64 bits."""
    match = _WHOLE_NUMBER.fullmatch(text)
    return in_range(int(match[1])) if match else None


def first_number(text: str) -> int | None:
    """Converts the first run of digits in a text to a number; None without digits, or if it exceeds 64 bits."""
    match = _FIRST_NUMBER.search(text)
    return in_range(int(match[0])) if match else None


def short_hash(text: str) -> int:
    """Returns the CRC-32 of the bytes, equal on every machine; GSQL uses another hash."""
    return zlib.crc32(octets(text))


def long_hash(text: str) -> int:
    """Returns the first 64 bits of the BLAKE2b of the bytes as a signed number, equal on every machine."""
    return int.from_bytes(blake2b(octets(text), digest_size=8).digest(), "big", signed=True)


def to_hex(text: str) -> str:
    """Returns two hexadecimal digits per byte of the text."""
    return octets(text).hex()


def _as_flag(predicate: Callable[..., bool], *arguments: Any) -> int:
    return int(predicate(*arguments))


def _both(
    name: str, parameters: tuple[Type, ...], value: Callable[..., bool], cost: Cost, limits: Limits = ()
) -> list[Function]:
    return [
        Function(name, parameters, Type.BOOL, value, cost, lfta=True, predicate=True, limits=limits),
        Function(name, parameters, Type.INT, partial(_as_flag, value), cost, lfta=True, limits=limits),
    ]


def _functions() -> list[Function]:
    string, string_and_int, free = (Type.STRING,), (Type.STRING, Type.INT), Cost.FREE
    part = partial(Function, returns=Type.STRING, cost=free, lfta=True, partial=True)
    return [
        part("str_truncate", string_and_int, value=truncate, limits=((1, at_least(0)),)),
        part("str_suffix", string_and_int, value=suffix, limits=((1, at_least(0)),)),
        part("get_suffix", string_and_int, value=suffix_from, limits=((1, at_least(1)),)),
        part(
            "get_list_entry",
            (Type.STRING, Type.STRING, Type.INT),
            value=list_entry,
            constant=(2,),
            limits=((1, NOT_EMPTY), (2, at_least(0))),
        ),
        Function(
            "sum_uint_in_list",
            (Type.STRING, Type.STRING),
            Type.INT,
            sum_in_list,
            lfta=True,
            partial=True,
            constant=(1,),
            limits=((1, NOT_EMPTY),),
        ),
        Function("string_hash", string, Type.INT, short_hash, lfta=True),
        Function("string_hash_long", string, Type.INT, long_hash),
        Function("to_hex_string", string, Type.STRING, to_hex, Cost.EXPENSIVE),
        Function("to_llong", string, Type.INT, whole_number, lfta=True, partial=True),
        Function("to_llong", (Type.IP,), Type.INT, address_number, lfta=True, partial=True),
        Function("strtoi", string, Type.INT, first_number, Cost.HIGH, partial=True),
        Function("strtoip", string, Type.IP, parse_address, Cost.HIGH, partial=True),
        Function("strtoi_c", string, Type.INT, first_number, lfta=True, partial=True, constant=(0,)),
        Function("strtoip_c", string, Type.IP, parse_address, lfta=True, partial=True, constant=(0,)),
        Function(
            "int_to_string_map",
            (Type.INT, Type.STRING),
            Type.STRING,
            mapped_string,
            Cost.EXPENSIVE,
            constant=(1,),
            files=(1,),
        ),
    ]


def _predicates() -> list[Function]:
    pair, predicates = (Type.STRING, Type.STRING), []
    for name, value in (("str_match_start", matches_start), ("str_exists_substr", contains), ("str_compare", equal)):
        predicates += _both(name, pair, value, Cost.HIGH)
    predicates += _both(
        "str_match_offset", (Type.INT, Type.STRING, Type.STRING), matches_at, Cost.LOW, ((0, at_least(0)),)
    )
    words: dict[str, Callable[..., bool]] = {
        "byte_match_offset": byte_at,
        "byte_match_reverse_offset": byte_from_end,
        "net_word_match_offset": partial(word_at, _big),
        "little_endian_word_match_offset": partial(word_at, _little),
    }
    for name, compare in words.items():
        limits = ((0, at_least(1 if compare is byte_from_end else 0)),)
        predicates += _both(name, (Type.INT, Type.INT, Type.STRING), compare, Cost.LOW, limits)
    return predicates


STRINGS: tuple[Function, ...] = (*_predicates(), *_functions())
