"""Functions and predicates of strings: parts, lists, hashes, prefixes from files, regular expressions, LIKE."""

from __future__ import annotations

import ipaddress
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowwater.catalog.builtin.numbers import address_number, in_range, octets
from lowwater.catalog.expr import Type
from lowwater.catalog.functions import NOT_EMPTY, Cost, Function, Limits, at_least
from lowwater.catalog.values import pack_ip
from lowwater.errors import ConfigError
from lowwater.limits import LOOKUP_FILE_BYTES

# Tables in files: address prefixes, and strings of numbers. A function reads a file again only after the file has
# changed. The hash of the content is an input of the query (S1); `Function.files` names the file for the planner. A
# path is relative to the working folder.

NO_PREFIX = -1
_WIDTH = {4: 32, 6: 128}
_BETWEEN = re.compile(r"[\s,|]+")


@dataclass(frozen=True)
class Prefixes:
    """A table of address prefixes.

    Attributes:
        families: version of IP -> (prefix length, identifiers by prefix) pairs, the longest length first.
    """

    families: dict[int, tuple[tuple[int, dict[int, int]], ...]]

    def longest(self, address: bytes) -> int:
        """Returns the identifier of the longest prefix of an address; NO_PREFIX without a match."""
        family = address[0]
        number = int.from_bytes(address[1:], "big")
        for length, identifiers in self.families.get(family, ()):
            identifier = identifiers.get(number >> (_WIDTH[family] - length))
            if identifier is not None:
                return identifier
        return NO_PREFIX


def prefix_id(address: bytes, path: str) -> int:
    """Returns the identifier of the longest prefix of an address in a file; -1 without a match."""
    prefixes: Prefixes = _table(path, read_prefixes)
    return prefixes.longest(address)


def mapped_string(number: int, path: str) -> str:
    """Returns the string of a number in a file; the empty string if the file has none."""
    names: dict[int, str] = _table(path, read_strings)
    return names.get(number, "")


def read_prefixes(path: str) -> Prefixes:
    """Reads `prefix/length identifier` lines of IPv4 and IPv6; # starts a comment.
    Raises ConfigError if a line is wrong; the message has file, line and cause.

    Args:
        path: a text file; blanks, a comma or a bar separate the fields of a line.
    """
    families: dict[int, dict[int, dict[int, int]]] = {4: {}, 6: {}}
    for line, text in _lines(path):
        parts = _BETWEEN.split(text)
        try:
            network = ipaddress.ip_network(parts[0])
            identifier = in_range(int(parts[1])) if len(parts) == 2 else None
        except ValueError as error:
            raise _wrong(path, line, str(error), _PREFIX_HINT) from None
        if identifier is None:
            raise _wrong(path, line, f"`{text}` is no prefix with its identifier", _PREFIX_HINT)
        length = network.prefixlen
        number = int(network.network_address) >> (_WIDTH[network.version] - length)
        if families[network.version].setdefault(length, {}).setdefault(number, identifier) != identifier:
            raise _wrong(path, line, f"{network} has two identifiers", "leave one of the lines out")
    return Prefixes({family: tuple(sorted(sizes.items(), reverse=True)) for family, sizes in families.items()})


def read_strings(path: str) -> dict[int, str]:
    """Reads `number,string` lines; # starts a comment.
    Raises ConfigError if a line is wrong; the message has file, line and cause."""
    names: dict[int, str] = {}
    for line, text in _lines(path):
        number, comma, name = (part.strip() for part in text.partition(","))
        if not comma or not re.fullmatch(r"[+-]?[0-9]{1,19}", number, re.ASCII):
            raise _wrong(path, line, f"`{text}` is no number with its string", "write `443,https`")
        if names.setdefault(int(number), name) != name:
            raise _wrong(path, line, f"{number} has two strings", "leave one of the lines out")
    return names


_PREFIX_HINT = "write `10.0.0.0/8 7`: prefix, length and an integer"


def _lines(path: str) -> Iterator[tuple[int, str]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for line, text in enumerate(file, 1):
            content = text.strip()
            if content and not content.startswith("#"):
                yield line, content


def _wrong(path: str, line: int, cause: str, hint: str) -> ConfigError:
    return ConfigError(f"{path}:{line}: {cause:.200}", hint)


def _table(path: str, read: Callable[[str], Any]) -> Any:
    try:
        state = os.stat(path)
        if not os.path.isfile(path):
            raise ConfigError(f"{path}: is not a file", "name a text file")
        if state.st_size > LOOKUP_FILE_BYTES:
            raise ConfigError(
                f"{path}: has {state.st_size:,} bytes, more than {LOOKUP_FILE_BYTES:,}", "leave lines out"
            )
        return _cached_file(path, state.st_mtime_ns, state.st_size, read)
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) else str(error)
        hint = "paths are relative to the folder in which Lowwater runs"
        raise ConfigError(f"{path}: cannot be read: {cause}", hint) from None


@lru_cache(maxsize=16)
def _cached_file(path: str, _changed: int, _size: int, read: Callable[[str], Any]) -> Any:
    # The cache key has the time of change and the size, so that a changed file is read again.
    return read(path)


# Functions of strings. Lengths and positions count characters, which are bytes in payloads. A query may also call a
# predicate as a function, which returns 1 or 0 (Tigon SQL User Manual, section 12.2).

# Functions of IP addresses


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


def joined(first: str, second: str) -> str:
    """Returns two texts as one."""
    return first + second


def part_of(text: str, start: int, length: int | None = None) -> str | None:
    """Returns the characters from one on, the first is 1; None for one before it, or a length below 0.

    Example:
        >>> part_of("lowwater", 4), part_of("lowwater", 4, 3), part_of("lowwater", 0)
        ('water', 'wat', None)
    """
    if start < 1 or (length is not None and length < 0):
        return None
    return text[start - 1 :] if length is None else text[start - 1 : start - 1 + length]


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
        Function("lower", string, Type.STRING, str.lower, free, lfta=True),
        Function("upper", string, Type.STRING, str.upper, free, lfta=True),
        Function("length", string, Type.INT, len, free, lfta=True),
        Function("concat", (Type.STRING, Type.STRING), Type.STRING, joined, free, lfta=True),
        Function(
            "substr", string_and_int, Type.STRING, part_of, free, lfta=True, partial=True, limits=((1, at_least(1)),)
        ),
        Function(
            "substr",
            (Type.STRING, Type.INT, Type.INT),
            Type.STRING,
            part_of,
            free,
            lfta=True,
            partial=True,
            limits=((1, at_least(1)), (2, at_least(0))),
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


# Regular expressions and LIKE. Users write the patterns, and the subjects come from the network. RE2 (the kernels of
# pyarrow) therefore matches them in time linear in the subject, without backreferences and lookaround. As in GSQL, `^`
# and `$` match at every line of a subject, and `.` matches no line end. Unlike POSIX, the leftmost match is not always
# the longest match (`a|ab` finds `a`). A function fails for a subject of more than MAX_SUBJECT characters (V2).

MAX_PATTERN = 1_000
MAX_SUBJECT = 65_536
_GROUP = "lowwater"


def check_pattern(pattern: str) -> None:
    """Checks the syntax and the length of a regular expression.
    Raises ValueError if the pattern is wrong or too long; the message has the cause."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern):,} characters, more than {MAX_PATTERN:,}")
    try:
        _call("match_substring_regex", "", pc.MatchSubstringOptions(f"(?m){pattern}"))
    except ValueError as error:
        raise ValueError(str(error).replace("(?m)", "")) from None


def check_like(pattern: str) -> None:
    """Checks the length of a pattern of LIKE. Raises ValueError if the pattern is too long."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern):,} characters, more than {MAX_PATTERN:,}")


def found(text: str, pattern: str) -> bool | None:
    """Whether the pattern matches a part of the text; None for a failure."""
    options = _finder(pattern)
    if options is None or len(text) > MAX_SUBJECT:
        return None
    return bool(_call("match_substring_regex", text, options))


def found_early(text: str, pattern: str, length: int) -> bool | None:
    """Whether the pattern matches a part of the first `length` characters; None for a failure."""
    return found(text[:length], pattern) if length >= 0 else None


def extract(text: str, pattern: str) -> str | None:
    """Returns the first match of the pattern in the text; None without a match.

    Example:
        >>> extract("GET / HTTP/1.1", "HTTP/[0-9.]+")
        'HTTP/1.1'
    """
    options = _extractor(pattern)
    if options is None or len(text) > MAX_SUBJECT:
        return None
    matched = _call("extract_regex", text, options)
    return None if matched is None else str(matched[_GROUP])


def extract_or_empty(text: str, pattern: str) -> str | None:
    """Returns the first match of the pattern in the text; the empty string without a match, None for a failure."""
    if _finder(pattern) is None or len(text) > MAX_SUBJECT:
        return None
    return extract(text, pattern) or ""


def like(text: str, pattern: str) -> bool | None:
    r"""Whether a text matches a LIKE pattern: `%` is any text, `_` any character; a backslash escapes both.

    Example:
        >>> like("example.org", "ex%.___"), like("100%", r"100\%")
        (True, True)
    """
    if len(pattern) > MAX_PATTERN or len(text) > MAX_SUBJECT:
        return None
    return bool(_call("match_like", text, _like_options(pattern)))


def found_in_each(texts: Sequence[str | None], pattern: str) -> list[bool | None]:
    """Returns the results of `found` for several texts."""
    options = _finder(pattern)
    return [None] * len(texts) if options is None else _matches("match_substring_regex", texts, options)


def like_each(texts: Sequence[str | None], pattern: str) -> list[bool | None]:
    """Returns the results of `like` for several texts."""
    if len(pattern) > MAX_PATTERN:
        return [None] * len(texts)
    return _matches("match_like", texts, _like_options(pattern))


def _matches(kernel: str, texts: Sequence[str | None], options: Any) -> list[bool | None]:
    subjects = [None if text is None or len(text) > MAX_SUBJECT else text for text in texts]
    answers: list[bool | None] = pc.call_function(kernel, [pa.array(subjects, pa.string())], options).to_pylist()
    return answers


def _call(kernel: str, text: str, options: Any) -> Any:
    # A lone surrogate has no UTF-8 form, so the replacement character stands for it.
    subject = pa.scalar(text.encode("utf-8", "replace"), pa.string())
    return pc.call_function(kernel, [subject], options).as_py()


@lru_cache(maxsize=256)
def _finder(pattern: str) -> Any:
    try:
        check_pattern(pattern)
    except ValueError:
        return None
    return pc.MatchSubstringOptions(f"(?m){pattern}")


@lru_cache(maxsize=256)
def _extractor(pattern: str) -> Any:
    if _finder(pattern) is None:
        return None
    return pc.ExtractRegexOptions(f"(?m)(?P<{_GROUP}>{_without_groups(pattern)})")


@lru_cache(maxsize=256)
def _like_options(pattern: str) -> Any:
    return pc.MatchSubstringOptions(pattern)


def _without_groups(pattern: str) -> str:
    """Makes every group of a pattern non-capturing, because the kernel refuses groups without names."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern.startswith("\\Q", at):
            close = pattern.find("\\E", at)
            end = close + 2 if close >= 0 else len(pattern)
        elif pattern[at] == "\\":
            end = at + 2
        elif pattern[at] == "[":
            end = _class_end(pattern, at)
        elif pattern.startswith(("(?P<", "(?<"), at):
            parts.append("(?:")
            at = pattern.index(">", at) + 1
            continue
        elif pattern[at] == "(" and not pattern.startswith("(?", at):
            parts.append("(?:")
            at = end
            continue
        parts.append(pattern[at:end])
        at = end
    return "".join(parts)


def _class_end(pattern: str, at: int) -> int:
    at += 2 if pattern.startswith("[^", at) else 1
    at += pattern.startswith("]", at)
    while at < len(pattern) and pattern[at] != "]":
        close = pattern.find(":]", at) if pattern.startswith("[:", at) else -1
        at = close + 2 if close >= 0 else at + (2 if pattern[at] == "\\" else 1)
    return at + 1


def _regexes_as_flag(predicate: Callable[..., bool | None], *arguments: Any) -> int | None:
    answer = predicate(*arguments)
    return None if answer is None else int(answer)


def _regexes_functions() -> list[Function]:
    two, three = (Type.STRING, Type.STRING), (Type.STRING, Type.STRING, Type.INT)
    costly = partial(Function, cost=Cost.EXPENSIVE, partial=True, constant=(1,), check=check_pattern)
    functions = []
    for name, parameters, value in (("str_regex_match", two, found), ("str_partial_regex_match", three, found_early)):
        batch = found_in_each if value is found else None
        costly = partial(costly, limits=((2, at_least(0)),) if value is found_early else ())
        functions.append(costly(name, parameters, Type.BOOL, value, lfta=True, predicate=True, batch=batch))
        functions.append(costly(name, parameters, Type.INT, partial(_regexes_as_flag, value), lfta=True))
    costly = partial(costly, limits=())
    functions.append(costly("str_extract_regex", two, Type.STRING, extract))
    functions.append(costly("str_extract_regex_null", two, Type.STRING, extract_or_empty))
    for predicate in (False, True):
        functions.append(
            Function(
                "like",
                two,
                Type.BOOL,
                like,
                Cost.HIGH,
                True,
                True,
                predicate,
                constant=(1,),
                check=check_like,
                batch=like_each,
            )
        )
    return functions


REGEXES: tuple[Function, ...] = tuple(_regexes_functions())
