"""Paths in object stores: `s3://bucket/prefix`, `gs://`, `abfss://` and `az://`."""

from __future__ import annotations

import re
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import unquote, urlsplit

SCHEMES = ("s3", "gs", "abfss", "abfs", "az")

_URL = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)


class ObjectPath(PurePosixPath):
    """A path below a bucket; its text is the address."""

    __slots__ = ()

    def __str__(self) -> str:
        return re.sub(r"^([a-z0-9]+):/(?!/)", r"\1://", super().__str__())

    @property
    def bucket(self) -> str:
        """Address of the bucket or container, such as `s3://lakes`."""
        return f"{self.parts[0]}//{self.parts[1]}"

    @property
    def key(self) -> str:
        """Name of the object within its bucket, such as `office/a.html`."""
        return "/".join(self.parts[2:])


def require_no_keys(authority: str, scheme: str) -> None:
    """Checks that nothing stands before the bucket of an address in its authority, which follows `://` up to the first
    slash; of a secret with one this is the beginning. Addresses go into ledgers, reports and logs.
    Raises ValueError: keys may stand there; the message has no part of them."""
    authority = unquote(authority)
    before, mark, _ = authority.rpartition("@")
    container = scheme in ("abfs", "abfss") and ":" not in before
    port = scheme not in SCHEMES and re.search(r":\d{0,5}$", authority)
    if (mark and not container) or (":" in authority and not port):
        raise ValueError(
            f"an address with keys in it is not taken, and not repeated here: write {scheme}://BUCKET/PREFIX, and give "
            "the keys by the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for S3"
        )


_SIGNED = re.compile(
    r"[?&](X-Amz-[A-Za-z-]+|X-Goog-[A-Za-z-]+|AWSAccessKeyId|GoogleAccessId|Signature|sig)=", re.IGNORECASE
)


def shown(text: str) -> str:
    """Returns an address for a message: without keys and signatures, which are left out of it.

    Example:
        >>> shown("https://taps.example.org/a.pcap?X-Amz-Signature=abc"), shown("captures/a?.pcap")
        ('https://taps.example.org/a.pcap?(left out)', 'captures/a?.pcap')
    """
    address = _URL.match(text)
    if address is None:
        return text
    place, mark, _ = text[address.end() :].partition("?")
    place, hash_mark, _ = place.partition("#")
    keys, at, rest = place.rpartition("@")
    where = f"(left out)@{rest}" if keys or at else place
    return f"{address[0]}{where}{f'{mark or hash_mark}(left out)' if mark or hash_mark else ''}"


def require_pattern(text: str) -> str:
    """Returns a path or an address with wildcards, as it is.
    Raises ValueError if it is an address of no object store that is known, or one with keys or a signature."""
    address = _URL.match(text)
    if address is not None:
        require_no_keys(text[address.end() :].partition("/")[0], address[1].lower())
    if address is not None and address[1].lower() not in (*SCHEMES, "s3a"):
        raise ValueError(f"{shown(text)}: addresses of captures begin with {'://, '.join(SCHEMES)}://")
    if address is not None and _SIGNED.search(text):
        raise ValueError(f"{shown(text)}: {UNSIGNED}")
    return text


UNSIGNED = "an address with a signature is not taken: write s3://BUCKET/KEY, and give the keys by the environment"


def parse(text: str | PurePath) -> PurePath:
    """Returns the path that a text names: an `ObjectPath` for an address, otherwise a `Path`.
    Raises ValueError if it is an address that no lake can have."""
    if isinstance(text, PurePath):
        return text
    address = _URL.match(text)
    if address is None:
        return Path(text)
    scheme = address[1].lower()
    if scheme == "file":
        return Path(unquote(urlsplit(text).path))
    scheme = "s3" if scheme == "s3a" else scheme
    require_no_keys(text[address.end() :].partition("/")[0], scheme)
    if scheme not in SCHEMES:
        raise ValueError(
            f"{shown(text)}: a lake is a folder, or its address begins with {'://, '.join(SCHEMES)}:// or file://"
        )
    if _SIGNED.search(text):
        raise ValueError(f"{shown(text)}: {UNSIGNED}")
    parts = [part for part in text[address.end() :].split("/") if part]
    if not parts or any(part in (".", "..") or "?" in part or "#" in part for part in parts):
        raise ValueError(f"{shown(text)}: write {scheme}://BUCKET/PREFIX")
    return ObjectPath(f"{scheme}:", *parts)
