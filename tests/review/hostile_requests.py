"""Requests that cost much, or mean two things, if a server is careless: bytes as they go over the wire."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "PRI"]
METHODS += ["get", "Get", "X" * 300, "G:T", "G\0T", "%47ET", "GET\t"]
FORM = "Content-Type: application/x-www-form-urlencoded\r\n"
LONG = "x" * 7000
END, STAYS = "Connection: close", "Connection: keep-alive"


def _with(*lines: str, method: str = "GET", body: str = "", target: str = "{path}", version: str = "1.1") -> str:
    stays = any(line.startswith("Connection:") for line in lines)
    head = "".join(f"{line}\r\n" for line in (*lines, *([] if stays else [END])))
    return f"{method} {target} HTTP/{version}\r\nHost: {{host}}\r\n{{more}}{head}\r\n{body}"


def _hosted(*hosts: str, target: str = "{path}") -> str:
    return f"GET {target} HTTP/1.1\r\n{END}\r\n" + "".join(f"Host: {host}\r\n" for host in hosts) + "{more}\r\n"


HOSTS = [
    "",
    "evil.example",
    "evil.example:80",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "[::1",
    "[::ffff:1]",
]
HOSTS += ["127.0.0.1@evil.example", "evil.example#127.0.0.1", "localhost, evil.example", "xn--80ak6aa92e.com"]
HOSTS += ["rebind.network:8642", "0.0.0.0", "2130706433", "127.1", "<script>", "localhost/x", "a" * 3000]
REQUESTS = {
    **{f"method {name[:9]!r}": _with(method=name) for name in METHODS},
    **{
        f"method {name[:9]!r} with a form": _with(FORM + "Content-Length: 9", method=name, body="seal=1&a=b")
        for name in ("POST", "PUT", "GET", "HEAD", "TRACE")
    },
    **{f"host {name[:20]!r}": _hosted(name) for name in HOSTS},
    "no host": _hosted(),
    "two hosts": _hosted("{host}", "evil.example"),
    "two hosts, the other first": _hosted("evil.example", "{host}"),
    "one host twice": _hosted("{host}", "{host}"),
    "an absolute target": _hosted("{host}", target="http://{host}{path}"),
    "an absolute target elsewhere": _hosted("{host}", target="http://evil.example{path}"),
    "an authority as target": _hosted("{host}", target="evil.example:443"),
    "a star as target": _with(method="OPTIONS", target="*"),
    "two slashes": _with(target="//{path}"),
    "another site's path": _with(target="//evil.example/%2e%2e{path}"),
    "dots": _with(target="/..{path}/../..%2f..%2fetc/passwd"),
    "encoded slashes": _with(target="{path}%2f%2F%5c..%5c"),
    "encoded twice": _with(target="{path}%252e%252e%252f"),
    "nul": _with(target="{path}%00.html"),
    "bytes that are no text": _with(target="{path}%ff%fe%c0%af"),
    "a raw nul": _with(target="{path}\0x"),
    "a raw byte above 127": _with(target="{path}\xff\xfe"),
    "half an escape": _with(target="{path}%"),
    "line ends in a path": _with(target="{path}%0d%0aSet-Cookie:%20a=b"),
    "markup in a path": _with(target="{path}/%3Cscript%3Ealert(1)%3C/script%3E"),
    "a fragment": _with(target="{path}#x"),
    "questions": _with(target="{path}" + "?" * 500),
    "many parameters": _with(target="{path}?" + "a=b&" * 3000),
    "markup in parameters": _with(target="{path}?text=%3Cscript%3E&from=%00&a[b]=c&&&=&%"),
    "a long target": _with(target="{path}?" + "x" * 9000),
    "a very long target": _with(target="{path}/" + "x" * 200_000),
    "a deep target": _with(target="{path}" + "/a" * 9000),
    "a long header": _with(f"X-Long: {'x' * 9000}"),
    "a very long header": _with(f"X-Long: {'x' * 200_000}"),
    "many headers": _with(*(f"X-{at}: y" for at in range(3000))),
    "long headers": _with(*(f"X-{at}: {LONG}" for at in range(12))),
    "a header without a colon": _with("no colon here"),
    "a header without a name": _with(": x"),
    "a name with a blank": _with("X-A : x"),
    "a folded header": _with("X-A: b\r\n c: d"),
    "a bare line feed": "GET {path} HTTP/1.1\nConnection: close\nHost: {host}\n{more}\n",
    "a bare return": _with("X-A: b\rX-B: c"),
    "a nul in a header": _with("X-A: b\0c"),
    "cookies without end": _with("Cookie: " + "a=b; " * 1500),
    "the cookie many times": _with(
        "Cookie: " + "lowwater_login=x; " * 400, "Cookie: lowwater_login=y", "Cookie: _token=z"
    ),
    "a cookie of backslashes": _with('Cookie: a="' + "\\" * 7900),
    "a cookie of signs": _with('Cookie: =;;;="\x7f; \x80\xff=1; __proto__=1; $Version=1'),
    "two logins": _with("Authorization: Bearer x", "Authorization: Basic " + "=" * 500),
    "a login of another kind": _with("Authorization: Digest username=\xe9, realm="),
    "a token of three dots": _with("Authorization: Bearer e30.e30.e30"),
    "origins": _with(
        "Origin: null", "Origin: http://{host}", "Referer: javascript:alert(1)", "Sec-Fetch-Site: cross-site"
    ),
    "a form of another site": _with(
        FORM + "Content-Length: 6\r\nOrigin: http://evil.example\r\nSec-Fetch-Site: cross-site",
        method="POST",
        body="seal=1",
    ),
    "a form of another port": _with(
        FORM + "Content-Length: 6\r\nOrigin: http://{host}:1", method="POST", body="seal=1"
    ),
    "an image of another site": _with("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"),
    "odd fetch headers": _with(
        "Sec-Fetch-Site: \xff", "Sec-Fetch-Mode: a, b", "Sec-Fetch-User: ?2", "Origin: \x80://["
    ),
    "an origin that is none": _with(FORM + "Content-Length: 6\r\nOrigin: http://[", method="POST", body="seal=1"),
    "forwarded": _with(
        "X-Forwarded-For: 127.0.0.1",
        "X-Forwarded-Host: evil.example",
        "X-Forwarded-Proto: https, javascript",
        "X-Forwarded-Prefix: //evil.example",
        "Forwarded: for=127.0.0.1;host=evil.example",
        "X-Original-URL: /admin",
        "X-Rewrite-URL: /admin",
        "X-HTTP-Method-Override: DELETE",
    ),
    "ranges": _with("Range: bytes=0-1,2-3,4-4,-1,9999999999999999999999-"),
    "many ranges": _with("Range: bytes=" + ",".join(f"{at}-{at}" for at in range(900))),
    "a range that is none": _with("Range: bytes=z-\xff", "If-Range: x"),
    "conditions": _with(
        'If-None-Match: *, "' + "x" * 500 + '"',
        "If-Modified-Since: never",
        "If-Match: \xff",
        "If-Unmodified-Since: Thu, 99 Foo 99999 99:99:99 GMT",
    ),
    "encodings": _with(
        "Accept-Encoding: " + "gzip;q=9, br;q=-1, *;q=nan, " * 90,
        "Accept: " + "*/*;q=x," * 300,
        "TE: trailers, deflate;q=0.5",
        "Accept-Language: " + "x-" * 900,
    ),
    "two lengths": _with("Content-Length: 6", "Content-Length: 7", method="POST", body="seal=1x"),
    "a list of lengths": _with("Content-Length: 6, 7", method="POST", body="seal=1x"),
    "a negative length": _with("Content-Length: -6", method="POST", body="seal=1"),
    "a length with a sign": _with("Content-Length: +6", method="POST", body="seal=1"),
    "a length of a word": _with("Content-Length: six", method="POST", body="seal=1"),
    "a length beyond 64 bits": _with("Content-Length: 99999999999999999999999", method="POST", body="seal=1"),
    "a length in other digits": _with("Content-Length: \xb2", method="POST", body="seal=1"),
    "more than its length": _with(FORM + "Content-Length: 6", method="POST", body="seal=1GET /hidden HTTP/1.1\r\n\r\n"),
    "length and chunks": _with(
        "Content-Length: 6",
        "Transfer-Encoding: chunked",
        method="POST",
        body="0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: {host}\r\n\r\n",
    ),
    "chunks twice": _with("Transfer-Encoding: chunked", "Transfer-Encoding: identity", method="POST", body="0\r\n\r\n"),
    "chunks in disguise": _with("Transfer-Encoding: xchunked", method="POST", body="0\r\n\r\n"),
    "chunks and more": _with("Transfer-Encoding: gzip, chunked", method="POST", body="0\r\n\r\n"),
    "chunks of a get": _with("Transfer-Encoding: chunked", body="5\r\nhello\r\n0\r\n\r\n"),
    "chunks that end early": _with("Transfer-Encoding: chunked", method="POST", body="0\r\n"),
    "a chunk of a huge size": _with("Transfer-Encoding: chunked", method="POST", body="FFFFFFFFFFFFFFFFF\r\nx"),
    "a chunk of a bad size": _with("Transfer-Encoding: chunked", method="POST", body="-1\r\nx\r\n0\r\n\r\n"),
    "a long extension": _with(
        "Transfer-Encoding: chunked", method="POST", body="1;" + "a" * 100_000 + "\r\nx\r\n0\r\n\r\n"
    ),
    "trailers": _with(
        "Transfer-Encoding: chunked", "Trailer: Host", method="POST", body="0\r\nHost: evil.example\r\n\r\n"
    ),
    "a form of many fields": _with(FORM + "Content-Length: 12000", method="POST", body="a=b&" * 3000),
    "a form of escapes": _with(FORM + "Content-Length: 12000", method="POST", body="%ff%" * 3000),
    "a form of bytes": _with(FORM + "Content-Length: 200", method="POST", body="\xff\x00" * 100),
    "a form of another kind": _with(
        "Content-Type: multipart/form-data; boundary=" + "b" * 500, "Content-Length: 6", method="POST", body="--bb\r\n"
    ),
    "a document": _with("Content-Type: application/json", "Content-Length: 12000", method="POST", body="[" * 12000),
    "a huge form": _with(FORM + "Content-Length: 3000000", method="POST", body="a=" + "x" * 2_999_998),
    "an expectation": _with("Expect: 100-continue", "Content-Length: 6", method="POST", body="seal=1"),
    "another expectation": _with("Expect: 200-maybe"),
    "http/0.9": "GET {path}\r\n\r\n",
    "http/1.0": _with(version="1.0"),
    "http/1.0 that stays": _with("Connection: keep-alive", version="1.0"),
    "http/2.0": _with(version="2.0"),
    "http/9.9": _with(version="9.9"),
    "no version": "GET {path} HTTP/\r\n\r\n",
    "the preface of http/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "nothing": "\r\n\r\n\r\n\r\n",
    "bytes": "\x00\xff" * 900,
    "an upgrade to http/2": _with(
        "Connection: Upgrade, HTTP2-Settings, close", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"
    ),
    "an upgrade to a web socket": _with(
        "Connection: Upgrade, close",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ),
    "hop by hop": _with(
        "Connection: close, authorization, cookie, host", "Keep-Alive: timeout=99999", "Proxy-Connection: x"
    ),
    "pipelined": _with(STAYS) * 2 + _with(),
    "a pipeline of two kinds": _with(STAYS)
    + _with(FORM + "Content-Length: 6", STAYS, method="POST", body="seal=1")
    + _with(method="HEAD"),
    "many at once": _with(STAYS, target="/nothing") * 99 + _with(target="/nothing"),
    "half a request": "GET {path} HTTP/1.1\r\nHost: {host}\r\nX-",
    "half a form": _with(FORM + "Content-Length: 600", method="POST", body="seal=1"),
}

UNFINISHED = {"half a request", "half a form", "chunks that end early", "a chunk of a huge size", "tls", "bytes"}
"""Those whose end a server may wait for in vain, and which then have no answer."""
SEVERAL = {"pipelined", "a pipeline of two kinds", "many at once", "the preface of http/2"}
"""Those that are more than one request."""


def bytes_of(name: str, path: str, host: str, more: str = "") -> bytes:
    """The request of a name; `more` is header lines."""
    text = REQUESTS[name]
    for mark, value in (("{path}", path), ("{host}", host), ("{more}", more)):
        text = text.replace(mark, value)
    return text.encode("latin-1")


def talk(port: int, sent: bytes, timeout: float = 30.0) -> bytes:
    """Sends bytes to a server of this machine, and gives what it answers until it ends the connection."""
    answered = b""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=timeout) as line,
        suppress(ConnectionError, TimeoutError),
    ):
        with suppress(ConnectionError):  # it may end before it has read all
            line.sendall(sent)
        while piece := line.recv(1 << 16):
            answered += piece
    return answered


def statuses(answered: bytes) -> Iterator[tuple[int, str]]:
    """The statuses of the answers of a connection, and their bodies."""
    while answered:
        head, end, answered = answered.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        found = re.fullmatch(rb"HTTP/1\.[01] (\d{3})( [ -~]*)?", first)
        assert found and end, first
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        body, length = b"", int(headers.get(b"content-length", -1))
        if headers.get(b"transfer-encoding") == b"chunked":
            while size := int((head := answered.partition(b"\r\n"))[0] or b"0", 16):
                body, answered = body + head[2][:size], head[2][size + 2 :]
            answered = answered[5:]
        elif not answered.startswith(b"HTTP/1.") and int(found[1]) not in (100, 204, 304):  # else of HEAD
            body, answered = (answered, b"") if length < 0 else (answered[:length], answered[length:])
        if found[1] != b"100":
            yield int(found[1]), body.decode(errors="replace")
