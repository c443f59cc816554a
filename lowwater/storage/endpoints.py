"""Whether the address of an object store leads to one, before the first request: its client tries a wrong one for long,
and says only that nothing answers.

Below `objects`. One look for each address of a process.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from lowwater.storage.failures import StoreError

CONNECT = 5.0
"""Seconds to wait for a connection."""

TRIES, PAUSE = 3, 1.0
"""Times that a host is asked for which there is none, or that refuses, and seconds between them: it may be starting."""

_PLAIN_QUESTION = "OPTIONS * HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
_REACH = "check the host and the port of {name}, that the store runs, and that this machine reaches it"


# Only what is right is remembered: an error is raised, and the next process, or request, looks again.
@lru_cache(maxsize=16)
def require_endpoint(name: str, address: str) -> None:
    """Checks that something that speaks HTTP, with or without TLS as the address says, listens at an address.

    Args:
        name: variable of the environment that has the address.
        address: the address, `http://HOST:PORT` or `https://HOST:PORT`.

    Raises:
        StoreError: it does not; names the variable, never what stands in the address beside host and port.
    """
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


def _connected(name: str, where: str, host: str, port: int) -> socket.socket:
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


def _require_tls(connection: socket.socket, where: str, host: str) -> None:
    context = ssl.create_default_context()
    if not _knows_issuers():
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the client may
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


def _knows_issuers() -> bool:
    """Whether Python judges certificates by the same issuers as the client of the store."""
    known = ssl.get_default_verify_paths()
    return not os.environ.get("SSL_CERT_DIR") and bool(known.cafile or known.capath)


def _require_plain(connection: socket.socket, where: str, host: str) -> None:
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
