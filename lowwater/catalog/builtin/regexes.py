r"""Implements functions and predicates of regular expressions, and LIKE of SQL.

A family of the built-in catalog. Users write the patterns, and the subjects come from the network. RE2 (the kernels of
pyarrow) therefore matches them in time linear in the subject, without backreferences and lookaround. As in GSQL, `^`
and `$` match at every line of a subject, and `.` matches no line end. Unlike POSIX, the leftmost match is not always
the longest match (`a|ab` finds `a`). A function fails for a subject of more than MAX_SUBJECT characters (V2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function
from lowwater.catalog.limits import at_least

MAX_PATTERN = 1_000
MAX_SUBJECT = 65_536
_GROUP = "lowwater"


def check_pattern(pattern: str) -> None:
    """Checks the syntax and the length of a regular expression.

    Raises:
        ValueError: the pattern is wrong or too long; the message has the cause.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern):,} characters, more than {MAX_PATTERN:,}")
    try:
        _call("match_substring_regex", "", _arrow().MatchSubstringOptions(f"(?m){pattern}"))
    except ValueError as error:
        raise ValueError(str(error).replace("(?m)", "")) from None


def check_like(pattern: str) -> None:
    """Checks the length of a pattern of LIKE.

    Raises:
        ValueError: the pattern is too long.
    """
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
    import pyarrow as pa

    subjects = [None if text is None or len(text) > MAX_SUBJECT else text for text in texts]
    answers: list[bool | None] = _arrow().call_function(kernel, [pa.array(subjects, pa.string())], options).to_pylist()
    return answers


@cache
def _arrow() -> Any:
    # A late import: the command line starts faster, and most queries have no patterns.
    import pyarrow.compute as compute

    return compute


def _call(kernel: str, text: str, options: Any) -> Any:
    import pyarrow as pa

    # A lone surrogate has no UTF-8 form, so the replacement character stands for it.
    subject = pa.scalar(text.encode("utf-8", "replace"), pa.string())
    return _arrow().call_function(kernel, [subject], options).as_py()


@lru_cache(maxsize=256)
def _finder(pattern: str) -> Any:
    try:
        check_pattern(pattern)
    except ValueError:
        return None
    return _arrow().MatchSubstringOptions(f"(?m){pattern}")


@lru_cache(maxsize=256)
def _extractor(pattern: str) -> Any:
    if _finder(pattern) is None:
        return None
    return _arrow().ExtractRegexOptions(f"(?m)(?P<{_GROUP}>{_without_groups(pattern)})")


@lru_cache(maxsize=256)
def _like_options(pattern: str) -> Any:
    return _arrow().MatchSubstringOptions(pattern)


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


def _as_flag(predicate: Callable[..., bool | None], *arguments: Any) -> int | None:
    answer = predicate(*arguments)
    return None if answer is None else int(answer)


def _functions() -> list[Function]:
    two, three = (Type.STRING, Type.STRING), (Type.STRING, Type.STRING, Type.INT)
    costly = partial(Function, cost=Cost.EXPENSIVE, partial=True, constant=(1,), check=check_pattern)
    functions = []
    for name, parameters, value in (("str_regex_match", two, found), ("str_partial_regex_match", three, found_early)):
        batch = found_in_each if value is found else None
        costly = partial(costly, limits=((2, at_least(0)),) if value is found_early else ())
        functions.append(costly(name, parameters, Type.BOOL, value, lfta=True, predicate=True, batch=batch))
        functions.append(costly(name, parameters, Type.INT, partial(_as_flag, value), lfta=True))
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


REGEXES: tuple[Function, ...] = tuple(_functions())
