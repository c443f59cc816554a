"""Checks that a finished page has only permitted elements and relative addresses, and no scripts.

It is the last step of every page. The templates escape values; this check finds a value that was not escaped, or an
address of a network in a template.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

from lowwater.errors import LawError

_TAGS = re.compile(
    "html|head|meta|title|link|body|header|nav|main|footer|section|div|p|span|strong|em|small|code|br|hr|h[1-6]"
    "|ul|ol|li|time|table|thead|tbody|tr|th|td|a|details|summary"
)
_ATTRIBUTES = re.compile(
    "id|class|title|datetime|lang|charset|name|content|http-equiv|rel|href|hidden|style|data-[a-z]+"
    "|tabindex|role|aria-label"
)
_RELATIVE = re.compile(r"(?:#|(?:\.\./)*[A-Za-z0-9_%~-])[A-Za-z0-9_.%~/#-]*")
_STYLE = re.compile(r"(?:[a-z-]+:[a-z0-9.% -]*(?:!important)?; ?)*")


def offline(page: str) -> str:
    """Checks that a page works without a network and has no scripts.

    Returns:
        The same page.

    Raises:
        LawError: the page has an element, attribute or address that is not permitted.

    Example:
        >>> offline('<p class="x">text</p>')
        '<p class="x">text</p>'
    """
    checker = _Checker()
    checker.feed(page)
    checker.close()
    return page


class _Checker(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not _TAGS.fullmatch(tag):
            raise _refuse(f"an element <{tag}>")
        for name, value in attrs:
            if not _ATTRIBUTES.fullmatch(name):
                raise _refuse(f"an attribute {name} on <{tag}>")
            if name == "href" and not _RELATIVE.fullmatch(value or ""):
                raise _refuse(f"the address {value!r}, which is not relative,")
            if name == "http-equiv" and value != "Content-Security-Policy":
                raise _refuse(f"an instruction {value!r}")
            if name == "style" and not _STYLE.fullmatch(value or ""):
                raise _refuse(f"the style {value!r}")

    def unknown_decl(self, data: str) -> None:
        raise _refuse(f"a declaration {data[:40]!r}")


def _refuse(what: str) -> LawError:
    return LawError(f"a page of the report has {what} and is not shown", "this is a fault of the page's template")
