"""Objects of a store, by the client that Delta uses too: reads, conditional writes, lists.

Below `paths`. The keys and the address of the store come from the environment; a request that fails for the moment is
sent again by the client. The client has threads, so it is imported inside functions: a process that forks must not
have used it before.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lowwater.storage.endpoints import require_endpoint
from lowwater.storage.failures import KEYS, Door, StoreError, store_error
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PREFIXES = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_",), "abfs": ("AZURE_",), "abfss": ("AZURE_",)}
"""Scheme -> beginnings of the environment variables that its client knows."""

PIECE = 8 << 20
"""Bytes that are read or sent at a time."""

RETRIES = 8
"""Times that a failed request is sent again, with pauses that grow."""

READS = 5
"""Times that reading a file goes on after its connection broke."""

Version = str
"""The entity tag of an object, which differs once its content does."""


class ChangedError(Exception):
    """A conditional write found another version of the object than it was made for."""


def options(path: ObjectPath) -> dict[str, str]:
    """Returns the settings of a store from the environment, as the client and Delta take them.

    `LOWWATER_STORE_TIMEOUT` is the longest time of a request, s.
    """
    beginnings = PREFIXES[path.parts[0].removesuffix(":")]
    chosen = {name: value for name, value in os.environ.items() if name.startswith(beginnings) and value}
    chosen = {name: value for name, value in chosen.items() if name in _KNOWN or not name.startswith("AWS_")}
    chosen.setdefault("timeout", f"{os.environ.get('LOWWATER_STORE_TIMEOUT', '60')}s")
    require_sound(chosen)
    if any(value.lower().startswith("http://") for name, value in chosen.items() if "ENDPOINT" in name):
        chosen["allow_http"] = "true"
    return chosen


def require_sound(chosen: Mapping[str, str]) -> None:
    """Checks the settings of a store that its client would only try for long, or end the process for.

    Raises:
        StoreError: one is wrong; names the variable, not its value.
    """
    if not re.fullmatch(r"[0-9]{1,5}(\.[0-9]+)?s", chosen["timeout"]) or not float(chosen["timeout"][:-1]):
        hint = "write a number of seconds, such as 60"
        raise StoreError("LOWWATER_STORE_TIMEOUT is no time", hint, lasting=True)
    for name, other in (_KEY_PAIR, _KEY_PAIR[::-1]):
        if name in chosen and other not in chosen:
            raise StoreError(f"{name} is set, and {other} is not", KEYS, lasting=True)
    for name in _ADDRESSES:
        if name in chosen:
            require_endpoint(name, chosen[name])
    endpoint = urlsplit(chosen.get("AWS_ENDPOINT_URL", "")).hostname or "amazonaws.com"
    if not (any(name in chosen for name in _OF_KEYS) or re.search(r"(^|\.)amazonaws\.com(\.cn)?$", endpoint)):
        # Its client would ask the machines of Amazon for some.
        raise StoreError("there are no keys for the object store", KEYS, lasting=True)


_ADDRESSES = "AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"
_KEY_PAIR = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
_OF_KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_SKIP_SIGNATURE",
)


_KNOWN = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_SKIP_SIGNATURE",
}
"""Variables of S3 that both clients know; of others they would only say that they do not."""


def store_errors() -> Door:
    """Turns errors of the client into OSErrors: FileNotFoundError, or StoreError.

    Raises:
        ChangedError: if the condition of a write did not hold.
    """
    return Door(_told)


def _told(error: BaseException) -> BaseException | None:
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    if isinstance(error, (AlreadyExistsError, PreconditionError)):
        return ChangedError()
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return FileNotFoundError(2, "there is no such object")
    return store_error(error) if isinstance(error, (BaseError, OSError, ValueError)) else None


def read(path: ObjectPath, most: int = -1) -> tuple[bytes, Version]:
    """Reads a small object, or the first bytes of it, and its version."""
    with store_errors():
        import obstore

        for attempt in range(READS):
            try:
                answer = obstore.get(store(path), path.key)
                if 0 <= most < answer.meta["size"]:
                    part = obstore.get_range(store(path), path.key, start=0, end=most)
                    return bytes(part), answer.meta["e_tag"] or ""
                return bytes(answer.bytes()), answer.meta["e_tag"] or ""
            except obstore.exceptions.GenericError:  # the connection broke while the content came
                if attempt + 1 == READS:
                    raise
    raise AssertionError


def read_range(path: ObjectPath, start: int, size: int, version: Version) -> bytes:
    """Reads a part of an object.

    Args:
        path: the object.
        start: offset of the first byte.
        size: number of bytes, at least 1; the object has them.
        version: version that is read.

    Raises:
        OSError: if the object was replaced or removed, or the store fails.
    """
    with store_errors():
        import obstore

        for attempt in range(READS):
            try:
                options: Any = {"range": (start, start + size), "if_match": version or None}
                return bytes(obstore.get(store(path), path.key, options=options).bytes())
            except obstore.exceptions.PreconditionError:
                raise StoreError("it was replaced while it was read", "run the command again") from None
            except obstore.exceptions.GenericError:  # the connection broke while the content came
                if attempt + 1 == READS:
                    raise
                time.sleep(0.1 * attempt)
    raise AssertionError


def download(path: ObjectPath, target: Path) -> None:
    """Reads an object into a new file; where its connection breaks, reading goes on from there."""
    with store_errors():
        import obstore

        of, key, done = store(path), path.key, 0
        answer = obstore.get(of, key)
        size, failures = answer.meta["size"], 0
        pieces: Iterator[Any] = iter(answer.stream(min_chunk_size=PIECE))
        with target.open("wb") as file:
            while done < size:
                try:
                    piece = next(pieces, b"")
                    if not len(piece):
                        raise obstore.exceptions.GenericError("the body is cut")
                    done += file.write(piece)
                    failures = 0
                except obstore.exceptions.BaseError:
                    failures += 1
                    if failures == READS:
                        raise
                    time.sleep(0.1 * failures)
                    pieces = _pieces(of, key, done, size)


def _pieces(of: ObjectStore, key: str, begin: int, size: int) -> Iterator[Any]:
    import obstore

    for start in range(begin, size, PIECE):
        yield obstore.get_range(of, key, start=start, end=min(start + PIECE, size))


def upload(path: ObjectPath, source: Path) -> None:
    """Writes an object from a file, in the place of another."""
    with store_errors():
        import obstore

        obstore.put(store(path), path.key, source, chunk_size=PIECE)


def write(path: ObjectPath, data: bytes) -> None:
    """Writes a small object, in the place of another."""
    with store_errors():
        import obstore

        obstore.put(store(path), path.key, data, use_multipart=False)


def swap(path: ObjectPath, data: bytes, before: Version | None) -> Version:
    """Writes a small object if its version is still the one given; None if there is to be no object.

    Where the answer of the store is lost, it is unknown whether the object was written: the content tells.

    Returns:
        The new version.

    Raises:
        ChangedError: if there is another version.
    """
    with store_errors():
        import obstore

        mode: Any = "create" if before is None else {"e_tag": before}
        return obstore.put(store(path), path.key, data, mode=mode, use_multipart=False)["e_tag"] or ""


def copy(source: ObjectPath, target: ObjectPath) -> None:
    """Copies an object within its bucket; the store does it."""
    with store_errors():
        import obstore

        obstore.copy(store(source), source.key, target.key)


def head(path: ObjectPath) -> dict[str, Any] | None:
    """Returns size, e_tag and last_modified of an object; None without one."""
    with store_errors():
        import obstore

        try:
            return dict(obstore.head(store(path), path.key))
        except (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError):
            obstore.get(store(path), path.key)  # the answer to a HEAD has no body, which would tell the reason
            raise
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise
            return None


def delete(paths: Sequence[ObjectPath]) -> None:
    """Removes objects; those that are gone already are no error."""
    with store_errors():
        import obstore

        for path in paths:
            try:
                obstore.delete(store(path), path.key)
            except FileNotFoundError:
                continue


def below(folder: ObjectPath, first: bool = False) -> list[ObjectPath]:
    """Lists the objects below a prefix, by name; with `first` only one of them."""
    return sorted(islice(walk(folder), 1 if first else None))


def walk(folder: ObjectPath) -> Iterator[ObjectPath]:
    """Yields the objects below a prefix, in any order; it keeps one page of the list."""
    return (path for path, _ in entries(folder))


def entries(folder: ObjectPath, since: str = "") -> Iterator[tuple[ObjectPath, Mapping[str, Any]]]:
    """Yields the objects below a prefix with their size and last_modified, as `walk`; with `since` those behind it."""
    with store_errors():
        import obstore

        prefix, attempt = f"{folder.key}/" if folder.key else None, 0
        offset = f"{folder.key}/{since}" if since else None
        while True:
            try:
                for listed in obstore.list(store(folder), prefix=prefix, offset=offset, chunk_size=1000):
                    for entry in listed:
                        offset = entry["path"]
                        yield _of(folder, offset), entry
                return
            except obstore.exceptions.GenericError:  # the connection broke while a page came: go on behind it
                attempt += 1
                if attempt == READS:
                    raise


def children(folder: ObjectPath) -> tuple[list[ObjectPath], list[ObjectPath]]:
    """Lists the folders and the objects directly below a prefix, by name."""
    with store_errors():
        import obstore

        for attempt in range(READS):
            try:
                listed = obstore.list_with_delimiter(store(folder), prefix=f"{folder.key}/" if folder.key else None)
                break
            except obstore.exceptions.GenericError:
                if attempt + 1 == READS:
                    raise
        folders = [_of(folder, name) for name in sorted(listed["common_prefixes"])]
        return folders, [_of(folder, entry["path"]) for entry in sorted(listed["objects"], key=lambda at: at["path"])]


def _of(path: ObjectPath, key: str) -> ObjectPath:
    return ObjectPath(*path.parts[:2], *key.split("/"))


def store(path: ObjectPath) -> ObjectStore:
    """Returns the client of a bucket; threads share it."""
    return _client(path.bucket, tuple(sorted(options(path).items())))


@lru_cache(maxsize=8)
def _client(bucket: str, chosen: tuple[tuple[str, str], ...]) -> ObjectStore:
    from obstore.store import from_url

    config = dict(chosen)
    client: Any = {"timeout": config.pop("timeout"), "connect_timeout": "5s"}
    if config.pop("allow_http", ""):
        client["allow_http"] = True
    retry: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(minutes=3)}
    settings: Any = config
    return from_url(bucket, config=settings, client_options=client, retry_config=retry)


__all__ = ["ChangedError", "StoreError", "Version"]
