"""The jars of Delta come from the repository that the environment names, and are checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lowwater.errors import LowwaterError
from lowwater.spark.jars import MIRROR, NEEDED, VERSION, delta_jars, fetch_jars


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder."""

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a Maven repository with Delta's jars, which the environment of another installation names."""
    root = tmp_path / "mirror"
    for jar, name in zip(delta_jars(), NEEDED, strict=True):
        folder = root / "io" / "delta" / name / VERSION
        folder.mkdir(parents=True)
        (folder / f"{name}-{VERSION}.jar").write_bytes(jar.read_bytes())
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", f"http://127.0.0.1:{server.server_port}/")
        Thread(target=server.serve_forever, daemon=True).start()
        yield root
        server.shutdown()


@pytest.mark.slow
def test_jars_come_from_a_mirror(mirror: Path, tmp_path: Path) -> None:
    jars = fetch_jars()
    assert [jar.name for jar in jars] == [f"{name}-{VERSION}.jar" for name in NEEDED]
    assert all(tmp_path / "environment" in jar.parents for jar in jars)


@pytest.mark.slow
def test_jars_come_through_a_proxy(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is asked for a whole address is one: nothing listens at the repository."""
    (mirror / "http:").mkdir()
    (mirror / "http:" / "central.invalid").symlink_to(mirror)
    monkeypatch.setenv("HTTP_PROXY", os.environ["DEFAULT_ARTIFACT_REPOSITORY"])
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://central.invalid")
    assert len(fetch_jars()) == len(NEEDED)


@pytest.mark.slow
def test_a_jar_that_a_mirror_does_not_have_is_named(mirror: Path) -> None:
    next(mirror.rglob("delta-storage-*.jar")).unlink()
    with pytest.raises(LowwaterError, match=r"delta-storage-.*\.jar cannot be fetched: HTTP Error 404") as told:
        fetch_jars()
    assert told.value.hint == MIRROR


@pytest.mark.slow
def test_a_jar_that_is_not_the_one_that_is_meant_is_refused(mirror: Path) -> None:
    """Neither where it lies here, nor from a mirror."""
    *_, there = [jar for jar in fetch_jars() if jar.name.startswith("delta-storage")]
    served = next(mirror.rglob("delta-storage-*.jar"))
    for jar in (there, served):
        jar.write_bytes(served.read_bytes()[:-1] + b"x")
        with pytest.raises(LowwaterError, match="is not the delta-storage that Lowwater was built with: sha256 "):
            fetch_jars()
        assert not there.exists() and len(list(there.parent.iterdir())) == 3
