r"""Functions and predicates of regular expressions, and SQL's LIKE.

A family of the shipped catalog. Patterns come from users and subjects from the network, so they are matched by RE2
(pyarrow's kernels), in time linear in the subject: no backreferences, no lookaround. As in GSQL `^` and `$` also match
at the lines of a subject and `.` matches no end of line; unlike POSIX the leftmost match is not always the longest one
(`a|ab` finds `a`). A subject of more than MAX_SUBJECT characters fails (V2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from lowwater.catalog.expr import Type
from lowwater.catalog.functions import Cost, Function

MAX_PATTERN = 1_000
MAX_SUBJECT = 65_536
_GROUP = "lowwater"


def check_pattern(pattern: str) -> None:
    """Refuses what is no pattern.

    Raises:
        ValueError: with the cause.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern):,} characters, more than {MAX_PATTERN:,}")
    try:
        _call("match_substring_regex", "", _arrow().MatchSubstringOptions(f"(?m){pattern}"))
    except ValueError as error:
        raise ValueError(str(error).replace("(?m)", "")) from None


def check_like(pattern: str) -> None:
    """Refuses what is too long for LIKE.

    Raises:
        ValueError: with the cause.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern):,} characters, more than {MAX_PATTERN:,}")


def found(text: str, pattern: str) -> bool | None:
    """Whether the pattern matches somewhere in the text."""
    options = _finder(pattern)
    if options is None or len(text) > MAX_SUBJECT:
        return None
    return bool(_call("match_substring_regex", text, options))


def found_early(text: str, pattern: str, length: int) -> bool | None:
    """Whether the pattern matches somewhere in the first characters of the text, of which `length` are looked at."""
    return found(text[:length], pattern) if length >= 0 else None


def extract(text: str, pattern: str) -> str | None:
    """The first part of the text that the pattern matches; None where there is none.

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
    """Like `extract`, the empty string where nothing matches."""
    if _finder(pattern) is None or len(text) > MAX_SUBJECT:
        return None
    return extract(text, pattern) or ""


def like(text: str, pattern: str) -> bool | None:
    r"""SQL's LIKE: `%` stands for any characters, `_` for one; after a backslash they stand for themselves.

    Example:
        >>> like("example.org", "ex%.___"), like("100%", r"100\%")
        (True, True)
    """
    if len(pattern) > MAX_PATTERN or len(text) > MAX_SUBJECT:
        return None
    return bool(_call("match_like", text, _like_options(pattern)))


def found_in_each(texts: Sequence[str | None], pattern: str) -> list[bool | None]:
    """`found` of each text."""
    options = _finder(pattern)
    return [None] * len(texts) if options is None else _each("match_substring_regex", texts, options)


def like_each(texts: Sequence[str | None], pattern: str) -> list[bool | None]:
    """`like` of each text."""
    if len(pattern) > MAX_PATTERN:
        return [None] * len(texts)
    return _each("match_like", texts, _like_options(pattern))


def _each(kernel: str, texts: Sequence[str | None], options: Any) -> list[bool | None]:
    import pyarrow as pa

    subjects = [None if text is None or len(text) > MAX_SUBJECT else text for text in texts]
    answers: list[bool | None] = _arrow().call_function(kernel, [pa.array(subjects, pa.string())], options).to_pylist()
    return answers


@cache
def _arrow() -> Any:
    # Imported late: most queries have no patterns, and the command line starts faster without it.
    import pyarrow.compute as compute

    return compute


def _call(kernel: str, text: str, options: Any) -> Any:
    import pyarrow as pa

    # A lone surrogate has no UTF-8 form; it is matched as the replacement character.
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
    """The pattern with every group made non-capturing: the kernel wants all groups named, and only ours is read."""
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
    made = []
    for name, parameters, value in (("str_regex_match", two, found), ("str_partial_regex_match", three, found_early)):
        batch = found_in_each if value is found else None
        made.append(costly(name, parameters, Type.BOOL, value, lfta=True, predicate=True, batch=batch))
        made.append(costly(name, parameters, Type.INT, partial(_as_flag, value), lfta=True))
    made.append(costly("str_extract_regex", two, Type.STRING, extract))
    made.append(costly("str_extract_regex_null", two, Type.STRING, extract_or_empty))
    for predicate in (False, True):
        made.append(
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
    return made


FUNCTIONS: tuple[Function, ...] = tuple(_functions())
