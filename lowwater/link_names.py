"""Names of links, and of the interfaces below them (SEMANTICS T1).

Everything that reads, writes or checks such a name uses these functions.
"""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import quote

from lowwater.limits import LINK_NAME_CHARACTERS

FAMILY = r"[A-Za-z_][A-Za-z0-9_.-]*"
"""Pattern of the name of a link without an interface."""

FORM = "a letter or _ first, then letters, digits, _ . - and perhaps / with the name of an interface"

_UNSEEN = (
    "\\x00-\\x1f\\x7f-\\xa0\\xad\\u034f\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u115f\\u1160\\u1680"
    "\\u17b4\\u17b5\\u180e\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u2800\\u3000\\u3164\\ud800-\\uf8ff\\ufeff"
    "\\uffa0\\ufff0-\\ufffb\\ufffe\\uffff\\U000110bd\\U000110cd\\U00013430-\\U0001345f\\U0001bca0-\\U0001bca3"
    "\\U0001d173-\\U0001d17a\\U000e0000-\\U0010ffff"
)
"""Characters that nobody sees, or that change what is seen around them. Written out: the names of links must not change
with the version of Unicode in Python."""

_HIDDEN = re.compile(f"[{_UNSEEN}]")
_READ_AS_CODE = re.compile(r"%(?=[0-9A-F]{2}|=)|^#(?=[0-9]+$)")
_LINK = re.compile(f"{FAMILY}(?:/[^{_UNSEEN}]+)?")


def interface_name(name: bytes) -> str:
    """Returns the name of an interface as text: the exact name where it can be shown; two names never have one text.

    Bytes that are no UTF-8, and characters that cannot be seen, are `%XX`, and so is a `%` that would be read as one of
    these. A longer name than a folder can have ends with its digest.

    Example:
        >>> [interface_name(name) for name in ("以太网".encode(), b"eth0\\n", b"100%", b"%41")]
        ['以太网', 'eth0%0A', '100%', '%2541']
    """
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = name.decode("ascii", "surrogateescape")
    text = _READ_AS_CODE.sub(lambda match: _code(match[0].encode()), text)
    text = _HIDDEN.sub(lambda match: _code(match[0].encode(errors="surrogateescape")), text)
    if len(_in_path(text)) <= LINK_NAME_CHARACTERS:
        return text
    while len(_in_path(text)) > LINK_NAME_CHARACTERS - 36:
        text = text[: len(text) * 3 // 4]
    return f"{text}%={sha256(name).hexdigest()[:32]}"


def unnamed(number: int) -> str:
    """Returns the name of an interface that has none in its file, by its number among such interfaces, from 0.

    Example:
        >>> unnamed(0), unnamed(2)
        ('', '#2')
    """
    return f"#{number}" if number else ""


def below(link: str, interface: str | None) -> str:
    """Returns the link of an interface of a file that was ingested for a link (T1).

    Example:
        >>> below("main1", "eth0"), below("main1", ""), below("main1/left", "eth0")
        ('main1/eth0', 'main1', 'main1/left')
    """
    return f"{link}/{interface}" if interface and "/" not in link else link


def family_of(link: str) -> str:
    """Returns the link without an interface.

    Example:
        >>> family_of("main1/a/b")
        'main1'
    """
    return link.partition("/")[0]


def source_of(link: str, several: bool) -> str:
    """Returns the link that a file was ingested for, where an old ledger does not say."""
    return family_of(link) if several else link


def is_link_name(text: str) -> bool:
    """Whether a text may be the name of a link."""
    return _LINK.fullmatch(text) is not None


def _code(data: bytes) -> str:
    return "".join(f"%{byte:02X}" for byte in data)


def _in_path(text: str) -> str:
    return quote(text, safe="")
