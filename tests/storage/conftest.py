"""The S3 server of these tests, started once, and an environment that reaches it through a proxy."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from lowwater.storage.object_paths import ObjectPath
from tests.storage import gateway
from tests.storage.servers import BUCKET, PACKAGES, Proxy, proxied, s3_server

SECRET = gateway.SECRET


@pytest.fixture
def moto(server: int) -> int:
    """The port of the server that takes orders without keys, and can be told which it is to check."""
    if gateway.CHOSEN:
        pytest.skip("it tells moto what to check")
    return server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if gateway.CHOSEN:
        with gateway.gateway(tmp_path_factory.mktemp("gateway")) as port:
            yield port
        return
    if not PACKAGES.is_dir():
        pytest.skip("the S3 server is not installed: make .venv/.s3")
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as port:
        yield port


@pytest.fixture
def proxy(server: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxied(server) as running:
        for name, value in {
            "AWS_ENDPOINT_URL": running.url,
            "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "LOWWATER_STORE_TIMEOUT": "5",
        }.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def root(proxy: Proxy) -> ObjectPath:
    """A prefix that nobody has used."""
    return ObjectPath("s3:", BUCKET, f"lake-{uuid.uuid4().hex[:8]}")
