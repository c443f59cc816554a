"""A wrong address, key or clock: one line that names the cause, at once, and a hint that works, without secrets."""

from __future__ import annotations

import re
import socket
import ssl
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lowwater.errors import LakeError
from lowwater.lake.tables import open_table
from lowwater.storage import objects
from lowwater.storage.failures import StoreError
from lowwater.storage.object_paths import ObjectPath
from lowwater.storage.objects import require_endpoint
from tests.storage.servers import BUCKET

PATH = ObjectPath("s3:", "lakes", "office", "x")
KEY, SECRET = "AKIANEVERSEENNEVERSE", "NeverToBeSeen0123456789"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "PAUSE", 0.01)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@contextmanager
def answering(*answers: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that gives one answer to the beginning of whatever it is asked; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for number in range(50):
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                try:
                    if context is not None:
                        connection = context.wrap_socket(connection, server_side=True)
                    connection.recv(65536)
                    connection.sendall(answers[min(number, len(answers) - 1)])
                except OSError:
                    pass
                finally:
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


def http(status: str, body: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    return f"{head}\r\n{body}".encode()


FORBIDDEN = http("405 Method Not Allowed")


@pytest.mark.parametrize(
    ("address", "message", "hint"),
    [
        ("127.0.0.1:9000", "does not begin with http", "http://HOST:PORT"),
        ("localhost:9000", "does not begin with http", "http://HOST:PORT"),
        ("minio", "does not begin with http", "http://HOST:PORT"),
        ("s3://lakes", "begins with s3://", "http://HOST:PORT"),
        ("http://", "its host or its port", "http://HOST:PORT"),
        ("http://127.0.0.1:99999", "its host or its port", "http://HOST:PORT"),
        ("http://127.0.0.1:90x", "its host or its port", "http://HOST:PORT"),
        ("http://127.0.0.1: 9000", "its host or its port", "http://HOST:PORT"),
        ("http://[::1:9000", "its host or its port", "http://HOST:PORT"),
        (f"http://{KEY}:{SECRET}@127.0.0.1:9000", "more than a host and a port", "AWS_ACCESS_KEY_ID"),
        (f"https://127.0.0.1:9000/?X-Amz-Signature={SECRET}", "more than a host and a port", "AWS_ACCESS_KEY_ID"),
        ("http://no-such-host.invalid:9000", "there is no host no-such-host.invalid", "AWS_ENDPOINT_URL"),
        ("http://127.0.0.1:1", "nothing listens at port 1 of 127.0.0.1", "that the store runs"),
        ("https://127.0.0.1:1", "nothing listens at port 1 of 127.0.0.1", "that the store runs"),
    ],
)
def test_an_address_that_cannot_be_right_is_an_error_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str, message: str, hint: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", address)
    with pytest.raises(StoreError) as refused:
        objects.read(PATH)
    assert refused.value.lasting and "AWS_ENDPOINT_URL" in refused.value.message
    assert message in refused.value.message and hint in refused.value.hint
    assert SECRET not in str(refused.value) and "\n" not in refused.value.message


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """TLS of a server whose certificate nobody but itself has signed, and the certificate."""
    folder = tmp_path_factory.mktemp("tls")
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key", "-out", folder / "cert"]
    subprocess.run([*made.split(), *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context, folder / "cert"


def test_tls_and_none_are_told_apart(monkeypatch: pytest.MonkeyPatch, certificate: tuple[ssl.SSLContext, Path]) -> None:
    with answering(FORBIDDEN) as port:
        require_endpoint("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(StoreError, match="does not speak TLS at this port") as refused:
            require_endpoint("AWS_ENDPOINT_URL", f"https://127.0.0.1:{port}")
        assert "http://" in refused.value.hint
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    with answering(FORBIDDEN, context=certificate[0]) as port:
        with pytest.raises(StoreError, match="cannot be verified: self-signed certificate") as refused:
            require_endpoint("AWS_ENDPOINT_URL", f"https://localhost:{port}")
        assert "SSL_CERT_FILE" in refused.value.hint
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[1]))
        require_endpoint("AWS_ENDPOINT_URL", f"https://localhost:{port}")
        with pytest.raises(StoreError, match=r"certificate is not valid for '127\.0\.0\.1'"):
            require_endpoint("AWS_ENDPOINT_URL", f"https://127.0.0.1:{port}")
        with pytest.raises(StoreError, match=r"the store (speaks TLS|does not answer in HTTP)") as refused:
            require_endpoint("AWS_ENDPOINT_URL", f"http://localhost:{port}")
        assert "https://" in refused.value.hint
    answer = http("400 Bad Request", "The plain HTTP request was sent to HTTPS port")
    with answering(answer) as port, pytest.raises(StoreError, match="speaks TLS"):
        require_endpoint("AWS_ENDPOINT_URL", f"http://localhost:{port}")
    with answering(b"SSH-2.0-OpenSSH_9.6\r\n") as port, pytest.raises(StoreError, match="does not answer in HTTP"):
        require_endpoint("AWS_ENDPOINT_URL", f"http://localhost:{port}")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": ""}, "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not"),
        ({"AWS_ACCESS_KEY_ID": ""}, "AWS_SECRET_ACCESS_KEY is set, and AWS_ACCESS_KEY_ID is not"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "there are no keys for the object store"),
        ({"LOWWATER_STORE_TIMEOUT": "soon"}, "LOWWATER_STORE_TIMEOUT is no time"),
        ({"LOWWATER_STORE_TIMEOUT": "0"}, "LOWWATER_STORE_TIMEOUT is no time"),
    ],
)
def test_settings_of_the_store_that_are_wrong(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], message: str
) -> None:
    with answering(FORBIDDEN) as port:
        for name, value in {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **given}.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(StoreError, match=message) as refused:
            objects.read(PATH)
    assert refused.value.lasting and refused.value.hint


ANSWERS = [
    ("403 Forbidden", "InvalidAccessKeyId", "", "does not know the ID of the key", "AWS_ACCESS_KEY_ID"),
    ("403 Forbidden", "SignatureDoesNotMatch", "", "the secret is not that of the key", "AWS_SECRET_ACCESS_KEY"),
    ("400 Bad Request", "ExpiredToken", "", "their session has ended", "AWS_SESSION_TOKEN"),
    ("400 Bad Request", "InvalidToken", "", "the session token is not theirs", "AWS_SESSION_TOKEN"),
    ("403 Forbidden", "AccessDenied", "", "does not allow it to read lakes/office/x", "rights"),
    ("404 Not Found", "NoSuchBucket", "", "there is no such bucket: lakes", "make the bucket"),
    (
        "400 Bad Request",
        "AuthorizationHeaderMalformed",
        "<Message>the region 'us-east-1' is wrong; expecting 'eu-central-1'</Message><Region>eu-central-1</Region>",
        "the bucket is in another region: eu-central-1",
        "AWS_REGION",
    ),
    (
        "301 Moved Permanently",
        "PermanentRedirect",
        "<Endpoint>lakes.s3.eu-west-3.amazonaws.com</Endpoint>",
        "the bucket is in another region",
        "AWS_REGION",
    ),
    (
        "403 Forbidden",
        "RequestTimeTooSkewed",
        "<RequestTime>20261126T120000Z</RequestTime><ServerTime>2026-11-26T14:31:07Z</ServerTime>",
        "too far from that of the object store: this one says 20261126T120000Z, the store 2026-11-26T14:31:07Z",
        "set the clock",
    ),
]


@pytest.mark.parametrize(("status", "code", "more", "message", "hint"), ANSWERS, ids=[code for _, code, *_ in ANSWERS])
@pytest.mark.parametrize("by", ["object", "table"])
def test_what_a_store_refuses_is_said_in_one_line_and_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, status: str, code: str, more: str, message: str, hint: str, by: str
) -> None:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code>{more}<AWSAccessKeyId>{KEY}</AWSAccessKeyId></Error>"
    with answering(FORBIDDEN, http(status, body)) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(LakeError) as refused:
            objects.read(PATH) if by == "object" else open_table(PATH.parent / code)
    said = str(refused.value)
    assert message.partition(" to read")[0] in said and hint in refused.value.hint
    assert "\n" not in refused.value.message and not re.search(rf"{KEY}|{SECRET}|<Error>|Traceback|tried for", said)


@contextmanager
def enforced(server: int) -> Iterator[tuple[str, str]]:
    """Lets the server check keys and rights; yields the key of a user who may only read."""
    url = f"http://127.0.0.1:{server}"

    def ask(form: dict[str, str]) -> str:
        scope = "AWS4-HMAC-SHA256 Credential=a/20261126/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=b"
        data = urllib.parse.urlencode({"Version": "2010-05-08", **form}).encode()
        request = urllib.request.Request(url, data, {"Authorization": scope, "Host": "iam.amazonaws.com"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())

    def count(actions: str) -> None:
        address, kind = f"{url}/moto-api/reset-auth", {"Content-Type": "text/plain"}
        urllib.request.urlopen(urllib.request.Request(address, actions.encode(), kind), timeout=60).close()

    ask({"Action": "CreateUser", "UserName": "reader"})
    made = ask({"Action": "CreateAccessKey", "UserName": "reader"})
    policy = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:Get*","s3:List*"],"Resource":"*"}]}'
    ask({"Action": "PutUserPolicy", "UserName": "reader", "PolicyName": "p", "PolicyDocument": policy})
    found = [re.search(rf"<{name}>(.*?)</{name}>", made) for name in ("AccessKeyId", "SecretAccessKey")]
    assert found[0] and found[1]
    count("0")
    try:
        yield found[0][1], found[1][1]
    finally:
        count("1000000000")


@pytest.mark.slow
def test_a_server_that_checks_keys_and_rights(moto: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{moto}")
    path = ObjectPath("s3:", BUCKET, "office", "x")
    objects.write(path, b"1")

    def refused(key: str, secret: str, ask: Callable[[], object]) -> str:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        with pytest.raises(StoreError) as error:
            ask()
        assert error.value.lasting and not re.search(f"tried for|{re.escape(secret)}", str(error.value))
        return error.value.message

    with enforced(moto) as (key, secret):
        assert "does not know the ID of the key" in refused("AKIAUNKNOWN", secret, lambda: objects.read(path))
        assert "the secret is not that of the key" in refused(key, "wrong", lambda: objects.read(path))
        written = refused(key, secret, lambda: objects.write(path, b"2"))
        assert written == f"the object store does not allow it to write {BUCKET}/office/x"
        assert refused(key, secret, lambda: objects.delete([path])).endswith("to remove office/x")
        assert objects.read(path)[0] == b"1" and objects.below(path.parent) == [path]
