"""Words for what an audit found: a failed expectation as one sentence, instants and durations as people read them.

The Data Docs and the review pages show these; the ledgers keep the exact messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from lowwater.instants import parse_duration, parse_instant, spoken_duration, spoken_instant, spoken_span

LONGEST = 180
"""Most characters of a sentence."""
_INSTANT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"
_MESSAGE = re.compile(rf"(?P<about>.+?), {_INSTANT} to {_INSTANT}: (?P<reason>.+)", re.DOTALL)
_END = re.compile(r"; |: no capture covers |, so the interval is ")
_EXACT = re.compile(
    rf"\b(?P<start>{_INSTANT}) to (?P<end>{_INSTANT})|(?P<instant>\b{_INSTANT})|"
    r"(?<![^\s(])(?P<duration>\d[\d,]*(?:\.\d+)?(?:ns|us|ms|s|min|h))\b"
)


def headline(messages: Sequence[str], title: str) -> str:
    """Says what failed in one sentence; the title of the rule where no message has the usual form.

    Args:
        messages: messages of a failed expectation, `subject, interval: reason; captures`.
        title: the rule in words.

    Example:
        >>> interval = "2026-01-01T07:00:00Z to 2026-01-01T08:00:00Z"
        >>> reason = "19.4s of traffic are missing: no capture covers the end"
        >>> headline([f"link control, {interval}: {reason}"], "covered")
        'Link control: 19.4s of traffic are missing'
    """
    parts = [match for match in map(_MESSAGE.fullmatch, messages[:1]) if match]
    if not parts and messages and not title:
        return f"{messages[0]} (and {len(messages) - 1} more)" if len(messages) > 1 else messages[0]
    if not parts:
        return f"Not so: {title[:1].lower()}{title[1:]}"
    about, reason = parts[0]["about"], _END.split(parts[0]["reason"], maxsplit=1)[0]
    text = f"{about[:1].upper()}{about[1:]}: {reason}"
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"
    return f"{text} (and {len(messages) - 1} more)" if len(messages) > 1 else text


def spoken(text: str) -> Markup:
    """Escapes a text, and shows its instants and durations as people read them; the exact value is on hover.

    Example:
        >>> str(spoken("<b> at 2026-01-01T07:00:00.25Z, 1.201234s late"))[:76]
        '&lt;b&gt; at <time datetime="2026-01-01T07:00:00.25Z" title="2026-01-01T07:0'
    """
    parts, at = [], 0
    for match in _EXACT.finditer(text):
        parts += [escape(text[at : match.start()]), _shown(match)]
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def _shown(match: re.Match[str]) -> Markup:
    exact = match.group()
    try:
        if match["start"]:
            said = spoken_span(parse_instant(match["start"]), parse_instant(match["end"]))
            return Markup('<span title="{0}">{1}</span>').format(exact, said)
        if match["instant"]:
            said, form = spoken_instant(parse_instant(exact)), '<time datetime="{0}" title="{0}">{1}</time>'
        else:
            said, form = spoken_duration(parse_duration(exact.replace(",", ""))), '<span title="{0}">{1}</span>'
    except ValueError:
        return escape(exact)
    return Markup(form).format(exact, said)
