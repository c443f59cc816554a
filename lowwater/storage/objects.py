"""Objects of a store, by the client that Delta uses too, and copies of them on this machine."""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from lowwater import caches, limits, processes
from lowwater.storage import failures
from lowwater.storage.failures import ANSWER, KEYS, Door, StoreError, store_error
from lowwater.storage.object_paths import ObjectPath

if TYPE_CHECKING:
    from socket import socket

    from obstore.store import ObjectStore


# Does the address lead to a store? Asked before the first request: the client tries a wrong one for long, and says
# only that nothing answers.

CONNECT = 5.0
"""Seconds to wait for a connection."""

TRIES, PAUSE = 3, 1.0
"""Times that a host is asked for which there is none, or that refuses, and seconds between them: it may be starting."""

_PLAIN_QUESTION = "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
_REACH = "check the host and the port of {name}, that the store runs, and that this machine reaches it"


# Only what is right is remembered: an error is raised, and the next process, or request, looks again.
@lru_cache(maxsize=16)
def require_endpoint(name: str, address: str) -> None:
    """Checks that something that speaks HTTP, with or without TLS as the address says, listens at an address,
    `http://HOST:PORT` or `https://HOST:PORT`.
    Raises StoreError if it does not; names the variable, never what stands in the address beside host and port."""
    from urllib.request import getproxies, proxy_bypass

    parts, port = _parsed(name, address)
    host = parts.hostname or ""
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return  # what is behind the proxy cannot be asked by itself
    where = f"{name} = {parts.scheme}://{_bracketed(host)}:{port}"
    with _connected(name, where, host, port) as connection:
        if parts.scheme == "https":
            _require_tls(connection, where, host)
        else:
            _require_plain(connection, where, host)


def _parsed(name: str, address: str) -> tuple[SplitResult, int]:
    example = "write http://HOST:PORT, or https://HOST:PORT where the store has TLS"
    if not re.match(r"https?://", address, re.IGNORECASE):
        scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)", address)
        what = f"begins with {scheme[0]}://" if scheme else "does not begin with http:// or https://"
        raise StoreError(f"{name} is no address of an object store: it {what}", example, lasting=True)
    try:
        parts = urlsplit(address)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        sound = bool(parts.hostname) and not re.search(r"[\s\x00-\x1f]", address)
    except ValueError:
        sound = False
    if not sound:
        raise StoreError(f"{name} is no address of an object store: its host or its port is wrong", example, True)
    if "@" in parts.netloc or parts.query or parts.fragment:
        hint = f"{example}; keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
        raise StoreError(f"{name} has more than a host and a port: no key belongs into it", hint, True)
    return parts, port


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _connected(name: str, where: str, host: str, port: int) -> socket:
    import socket

    for attempt in range(1, TRIES + 1):
        try:
            return socket.create_connection((host, port), CONNECT)
        except socket.gaierror:
            message = f"{where}: there is no host {host}"
        except TimeoutError:
            raise StoreError(
                f"{where}: no answer to a connection within {CONNECT:g} s", _REACH.format(name=name), True
            ) from None
        except ConnectionRefusedError:
            message = f"{where}: nothing listens at port {port} of {host}"
        except OSError as error:
            message = f"{where}: cannot be reached: {error.strerror}"
        if attempt < TRIES:
            time.sleep(PAUSE)
    raise StoreError(message, _REACH.format(name=name), True)


def _require_tls(connection: socket, where: str, host: str) -> None:
    import ssl

    context = ssl.create_default_context()
    known = ssl.get_default_verify_paths()
    if os.environ.get("SSL_CERT_DIR") or not (known.cafile or known.capath):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the client has issuers that Python has not
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        raise StoreError(
            f"{where}: the certificate of the store cannot be verified: {error.verify_message}",
            "name the host as the certificate does, or a file with its issuer: SSL_CERT_FILE",
            True,
        ) from None
    except (ssl.SSLError, ConnectionError, TimeoutError):
        raise StoreError(
            f"{where}: the store does not speak TLS at this port",
            "write http:// in its place, or the port at which the store has TLS",
            True,
        ) from None


def _require_plain(connection: socket, where: str, host: str) -> None:
    try:
        connection.sendall(_PLAIN_QUESTION.format(host=_bracketed(host)).encode())
        answer = connection.recv(4096)
    except (ConnectionError, TimeoutError):
        answer = b""
    if not answer.startswith(b"HTTP/") or b"HTTPS port" in answer or b"HTTPS server" in answer:
        what = "speaks TLS" if answer[:1] == b"\x15" or b"HTTPS" in answer else "does not answer in HTTP"
        raise StoreError(
            f"{where}: the store {what} at this port",
            "write https:// in its place, or the port at which the store answers without TLS",
            True,
        )


# The keys and the address of the store come from the environment; a request that fails for the moment is sent again
# by the client. The client has threads, so it is imported inside functions: a process that forks must not have used
# it before.

PREFIXES = {"s3": ("AWS_",), "gs": ("GOOGLE_",), "az": ("AZURE_",), "abfs": ("AZURE_",), "abfss": ("AZURE_",)}
"""Scheme -> beginnings of the environment variables that its client knows."""


T = TypeVar("T")
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
    Raises StoreError if one is wrong; names the variable, not its value."""
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
    Raises ChangedError if the condition of a write did not hold."""
    return Door(_told, failures.made)


def _told(error: BaseException) -> BaseException | None:
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    if isinstance(error, (AlreadyExistsError, PreconditionError)):
        return ChangedError()
    if isinstance(error, FileNotFoundError) and "NoSuchBucket" not in str(error):
        return FileNotFoundError(2, "there is no such object")
    return store_error(error) if isinstance(error, (BaseError, OSError, ValueError)) else None


def tried(path: ObjectPath, request: Callable[[], T], conditional: bool = False) -> T:
    """Sends a request, and again while it fails for the moment: the one policy of tries (docs/object-stores.md). It may
    run often, also after it has succeeded without an answer.

    Pauses grow to LONGEST_PAUSE. After STORE_PATIENCE seconds in all, or STORE_FIRST_PATIENCE where the store has never
    answered this process, the last failure is the error. What is waited for is said every TELL seconds. A conflict of a
    request that is not conditional is that of a store which is busy with another request on the object.
    Raises OSError (FileNotFoundError, or StoreError), and ChangedError if a condition did not hold."""
    begun, attempt = time.monotonic(), 0
    while True:
        try:
            with store_errors():
                answer = request()
            _ANSWERED.add(path.bucket)
            return answer
        except (StoreError, FileNotFoundError, ChangedError) as failed:
            busy = isinstance(failed, ChangedError) and not conditional
            error = StoreError("the object store is busy with the object", ANSWER) if busy else failed
            if not isinstance(error, StoreError) or error.answered:
                _ANSWERED.add(path.bucket)
            if not isinstance(error, StoreError) or error.lasting:
                raise
            spent, most = time.monotonic() - begun, _most(path)
            pause = random.uniform(0.5, 1.0) * min(LONGEST_PAUSE, 0.1 * 2 ** min(attempt, 10))
            if spent + pause > most:
                raise StoreError(f"{error.message}; tried for {spent:.0f} s", error.hint) from None
            _tell(path, error.message, spent, most)
            attempt += 1
            time.sleep(pause)


LONGEST_PAUSE = 10.0  # longest pause between two tries, s
TELL = 10.0  # seconds between two lines about a store that is waited for
_ANSWERED: set[str] = set()  # buckets of stores that have answered this process
_LIMIT: ContextVar[float | None] = ContextVar("limit", default=None)
_said = [0.0]


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Lets requests of this block be tried for at most so many seconds, for whoever has a time to keep."""
    before = _LIMIT.set(seconds)
    try:
        yield
    finally:
        _LIMIT.reset(before)


def _most(path: ObjectPath) -> float:
    most = float(os.environ.get("LOWWATER_STORE_PATIENCE") or limits.STORE_PATIENCE)
    if path.bucket not in _ANSWERED:
        most = min(most, limits.STORE_FIRST_PATIENCE)
    limit = _LIMIT.get()
    return most if limit is None else min(most, limit)


def _tell(path: ObjectPath, message: str, spent: float, most: float) -> None:
    """Says that the store is waited for, once in TELL seconds whatever the number of threads."""
    now = time.monotonic()
    if spent >= TELL / 2 and now - _said[0] >= TELL:
        from lowwater import terminal  # seldom, and processes that look for files load little

        _said[0] = now
        until = datetime.fromtimestamp(time.time() + most - spent).strftime("%H:%M:%S")
        terminal.say(f"{path}: {message}; tried for {spent:.0f} s, going on until {until}", err=True)


def read(path: ObjectPath, most: int = -1) -> tuple[bytes, Version]:
    """Reads a small object, or the first bytes of it, and its version."""
    return tried(path, lambda: _get(path, most))


def _get(path: ObjectPath, most: int = -1) -> tuple[bytes, Version]:
    answer = store(path).get(path.key)
    if 0 <= most < answer.meta["size"]:
        part = store(path).get_range(path.key, start=0, end=most)
        return bytes(part), answer.meta["e_tag"] or ""
    return bytes(answer.bytes()), answer.meta["e_tag"] or ""


def read_range(path: ObjectPath, start: int, size: int, version: Version) -> bytes:
    """Reads so many bytes of an object, at least 1, from an offset on; the object has them.
    Raises OSError if the object was replaced or removed, or the store fails."""
    options: Any = {"range": (start, start + size), "if_match": version or None}
    try:
        return tried(path, lambda: bytes(store(path).get(path.key, options=options).bytes()), conditional=True)
    except ChangedError:
        raise StoreError("it was replaced while it was read", "run the command again") from None


def download(path: ObjectPath, target: Path) -> None:
    """Reads an object into a new file, which appears whole; where its connection breaks, reading goes on from there."""
    import obstore

    size: int | None = None
    pieces: Iterator[Any] | None = None
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:

            def piece() -> Any:
                nonlocal size, pieces
                try:
                    if size is None:
                        answer = store(path).get(path.key)
                        size, pieces = answer.meta["size"], iter(answer.stream(min_chunk_size=limits.STORE_PIECE_BYTES))
                    elif pieces is None:
                        pieces = _pieces(store(path), path.key, file.tell(), size)
                    found = next(pieces, b"")
                    if not len(found) and file.tell() < size:
                        raise obstore.exceptions.GenericError("the body is cut")
                    return found
                except BaseException:
                    pieces = None
                    raise

            while len(found := tried(path, piece)):
                file.write(found)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def _pieces(of: ObjectStore, key: str, begin: int, size: int) -> Iterator[Any]:
    for start in range(begin, size, limits.STORE_PIECE_BYTES):
        yield of.get_range(key, start=start, end=min(start + limits.STORE_PIECE_BYTES, size))


def upload(path: ObjectPath, source: Path) -> None:
    """Writes an object from a file, in the place of another."""
    tried(path, lambda: store(path).put(path.key, source, chunk_size=limits.STORE_PIECE_BYTES))


def write(path: ObjectPath, data: bytes) -> None:
    """Writes a small object, in the place of another."""
    tried(path, lambda: store(path).put(path.key, data, use_multipart=False))


def swap(path: ObjectPath, data: bytes, before: Version | None) -> Version:
    """Writes a small object if its version is still the one given; None if there is to be no object. Where the answer
    of the store is lost, it is unknown whether the object was written: the content tells.
    Raises ChangedError if there is another version."""
    return tried(path, lambda: _swap(path, data, before), conditional=True)


def _swap(path: ObjectPath, data: bytes, before: Version | None) -> Version:
    mode: Any = "create" if before is None else {"e_tag": before}
    return store(path).put(path.key, data, mode=mode, use_multipart=False)["e_tag"] or ""


def make(path: ObjectPath, data: bytes) -> Version:
    """Writes an object whose name is used once, and whose content nobody else writes; returns its version.

    A write whose answer was lost, and a refusal of a store that only was busy with another write of the name, are told
    from the write of somebody else by the content that is there.
    Raises ChangedError if another object has the name."""
    import obstore

    def put() -> Version:
        try:
            with store_errors():
                return _swap(path, data, None)
        except ChangedError:
            try:
                found, version = _get(path)
            except FileNotFoundError:
                raise obstore.exceptions.GenericError("409 Conflict") from None
            if found != data:
                raise
            return version

    return tried(path, put, conditional=True)


def copy(source: ObjectPath, target: ObjectPath) -> None:
    """Copies an object within its bucket; the store does it."""
    tried(target, lambda: store(source).copy(source.key, target.key))


def head(path: ObjectPath) -> dict[str, Any] | None:
    """Returns size, e_tag and last_modified of an object; None without one."""
    import obstore

    def ask() -> dict[str, Any]:
        try:
            return dict(store(path).head(path.key))
        except (obstore.exceptions.PermissionDeniedError, obstore.exceptions.UnauthenticatedError):
            store(path).get(path.key)  # the answer to a HEAD has no body, which would tell the reason
            raise

    try:
        return tried(path, ask)
    except FileNotFoundError:
        return None


def written(meta: Mapping[str, Any]) -> int:
    """The last write of an object by its `head` or its entry in a list, ns since the epoch."""
    moment: datetime = meta["last_modified"]
    return int(moment.timestamp()) * 10**9 + moment.microsecond * 1000  # a float of seconds would round


def delete(paths: Sequence[ObjectPath]) -> None:
    """Removes objects; those that are gone already are no error."""
    for path in paths:
        with suppress(FileNotFoundError):
            tried(path, partial(store(path).delete, path.key))


def below(folder: ObjectPath, first: bool = False) -> list[ObjectPath]:
    """Lists the objects below a prefix, by name; with `first` only one of them."""
    return sorted(islice(walk(folder), 1 if first else None))


def walk(folder: ObjectPath) -> Iterator[ObjectPath]:
    """Yields the objects below a prefix, in any order; it keeps one page of the list."""
    return (path for path, _ in entries(folder))


def entries(folder: ObjectPath, since: str = "") -> Iterator[tuple[ObjectPath, Mapping[str, Any]]]:
    """Yields the objects below a prefix with their size and last_modified, as `walk`; with `since` those behind it."""
    prefix, offset = f"{folder.key}/" if folder.key else None, f"{folder.key}/{since}" if since else None
    pages: Iterator[Any] | None = None

    def page() -> Any:
        nonlocal pages
        try:
            if pages is None:  # after a failure it goes on behind what was listed
                pages = iter(store(folder).list(prefix=prefix, offset=offset, chunk_size=1000))
            return next(pages, None)
        except BaseException:
            pages = None
            raise

    while (listed := tried(folder, page)) is not None:
        for entry in listed:
            offset = entry["path"]
            yield _of(folder, offset), entry


def children(folder: ObjectPath) -> tuple[list[ObjectPath], list[ObjectPath]]:
    """Lists the folders and the objects directly below a prefix, by name."""
    prefix = f"{folder.key}/" if folder.key else None
    listed = tried(folder, lambda: store(folder).list_with_delimiter(prefix=prefix))
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

    processes.require_descriptors()
    config = dict(chosen)
    client: Any = {"timeout": config.pop("timeout"), "connect_timeout": "5s"}
    client |= {"pool_max_idle_per_host": str(limits.STORE_CONNECTIONS), "pool_idle_timeout": "30s"}
    if config.pop("allow_http", ""):
        client["allow_http"] = True
    # `tried` sends every request again. The parts of a large file have no other chance.
    retry: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=10)}
    settings: Any = config
    return from_url(bucket, config=settings, client_options=client, retry_config=retry)


# Copies of objects on the disk of this machine. A file of a lake never changes under its name, so a copy is never
# stale. A whole file is one request, and its readers then have Arrow's own files with pages in any order.


LATELY = 600.0
"""Seconds for which a copy stays after somebody asked for it, so that its reader has opened it."""


class FileCache:
    """Copies of objects in a folder; old ones go above FILE_CACHE_BYTES."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._used: OrderedDict[Path, tuple[float, int]] = OrderedDict()
        self._busy: dict[Path, threading.Lock] = {}

    def file_of(self, path: ObjectPath) -> Path:
        """Returns where the copy of an object lies, or is to lie."""
        return self._folder.joinpath(*(part.replace(":", "") for part in path.parts))

    def fetch(self, path: ObjectPath) -> Path:
        """Returns the copy of an object, which is read unless it is there. Raises OSError if it cannot be read."""
        target = self.file_of(path)
        with self._lock:
            busy = self._busy.setdefault(target, threading.Lock())
        with busy:
            if target not in self._used or not target.exists():  # a draft that was not placed may be a part
                target.parent.mkdir(parents=True, exist_ok=True)
                download(path, target)
            self._note(target)
        return target

    def has(self, path: ObjectPath) -> bool:
        """Whether there is a whole copy of an object, so that the object is in the store."""
        target = self.file_of(path)
        with self._lock:
            return target in self._used and target.exists()

    def keep(self, path: ObjectPath, source: Path) -> None:
        """Moves a file that was uploaded to the place of its copy."""
        target = self.file_of(path)
        if source != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(source, target)
        self._note(target)

    def place(self, path: ObjectPath, content: bytes) -> None:
        """Keeps what is known to be the content of an object."""
        target = self.file_of(path)
        if not self.has(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{threading.get_ident()}.part")
            part.write_bytes(content)
            os.replace(part, target)
            self._note(target)

    def follow(self, source: ObjectPath, target: ObjectPath) -> None:
        """Moves the copy of an object, if there is one, to the place of an equal object."""
        if self.file_of(source).exists():
            self.keep(target, self.file_of(source))

    def drop(self, path: ObjectPath) -> None:
        self.file_of(path).unlink(missing_ok=True)

    def _note(self, target: Path) -> None:
        now = time.monotonic()
        with self._lock:
            self._busy.pop(target, None)
            self._used[target] = now, target.stat().st_size
            self._used.move_to_end(target)
            total = sum(size for _, size in self._used.values())
            while total > limits.FILE_CACHE_BYTES and next(iter(self._used.values()))[0] < now - LATELY:
                old, (_, size) = self._used.popitem(last=False)
                old.unlink(missing_ok=True)
                total -= size


def file_cache() -> FileCache:
    """The copies of this process; their folder goes with it."""
    return _of_process(os.getpid())  # a process that forked has copies of its own


@cache
def _of_process(process: int) -> FileCache:
    return FileCache(caches.make_folder("lowwater-files-"))


# What a command has seen of a store lately: it asks once, and takes what it saw as one snapshot. What others write
# meanwhile is seen after LOOK seconds, or once `look_again` was called: whoever has taken a lease calls it, since the
# holder before may have written until then.

LOOK = 30.0
"""Seconds for which what was seen stands."""

_seen: dict[tuple[str, PurePath], tuple[float, Any]] = {}
_asked: list[float] = [0.0]
_asked_of: dict[PurePath, float] = {}


def look_again(*places: PurePath) -> None:
    """Lets some places, or everything, be looked at again when it is used next."""
    now = time.monotonic()
    if not places:
        _asked[0] = now
    for place in places:
        _asked_of[place] = now


def is_recent(at: float, place: PurePath) -> bool:
    """Whether what was seen of a place at an instant, s of the monotonic clock, still stands."""
    return at > max(_asked[0], _asked_of.get(place, 0.0)) and time.monotonic() - at < LOOK


def lately(what: str, place: PurePath, look: Callable[[], T]) -> T:
    """Returns what was seen lately of a place; looks, and keeps what it sees, otherwise. Nobody changes it."""
    found = _seen.get((what, place))
    if found is not None and is_recent(found[0], place):
        value: T = found[1]
        return value
    at = time.monotonic()  # what is written while it looks may not be in it
    value = look()
    _seen[what, place] = at, value
    return value
