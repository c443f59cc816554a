"""The jars of Delta come from the repository that the environment names, and are checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from lowwater.spark.jars import DELTA, NEEDED, delta_jars, fetch_jars, proxy_options

VERSION = DELTA.rpartition(":")[2]
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>io.delta</groupId><artifactId>{name}</artifactId><version>{version}</version><dependencies>{rest}</dependencies>
</project>"""
DEPENDENCY = "<dependency><groupId>io.delta</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class Noted(SimpleHTTPRequestHandler):
    """Serves a folder and notes what was asked for."""

    paths: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        self.paths.append(self.path)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """The address of a Maven repository with Delta's jars and nothing else."""
    root = tmp_path / "mirror"
    for jar, name in zip(delta_jars(), NEEDED, strict=True):
        folder = root / "io" / "delta" / name / VERSION
        folder.mkdir(parents=True)
        (folder / f"{name}-{VERSION}.jar").write_bytes(jar.read_bytes())
        others = [] if name != next(iter(NEEDED)) else [other for other in NEEDED if other != name]
        rest = "".join(DEPENDENCY.format(other, VERSION) for other in others)
        (folder / f"{name}-{VERSION}.pom").write_text(POM.format(name=name, version=VERSION, rest=rest))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Noted, directory=str(root))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.spark
@pytest.mark.slow
def test_jars_come_from_a_mirror(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", mirror)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    jars = fetch_jars()
    assert [jar.name for jar in jars] == [f"{name}-{VERSION}.jar" for name in NEEDED]
    assert all(tmp_path in jar.parents for jar in jars)
    assert {path.rpartition("/")[2] for path in Noted.paths} >= {jar.name for jar in jars}


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, []),
        ({"NO_PROXY": "localhost"}, []),
        ({"HTTP_PROXY": "http://a:8080"}, ["-Dhttp.proxyHost=a", "-Dhttp.proxyPort=8080"]),
        ({"https_proxy": "https://b"}, ["-Dhttps.proxyHost=b", "-Dhttps.proxyPort=443"]),
    ],
)
def test_a_proxy_is_told_to_java(environment: dict[str, str], options: list[str]) -> None:
    assert proxy_options(environment) == options
