"""Secrets that are planted wherever Lowwater may have them: none is printed, stored, or shown to other processes."""

from __future__ import annotations

import io
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import psutil
import pytest
from lowwater_generator import generate
from lowwater_review.checking import Checker

from lowwater.cli.main import main
from lowwater.config import load_config
from lowwater.errors import ConfigError, LowwaterError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.layout import open_lake
from lowwater.replay.preview import PreviewRequest, run_preview
from lowwater.storage import objects
from lowwater.storage.captures import capture_path
from lowwater.storage.object_paths import ObjectPath, parse
from tests.replay.support import START, lowwater
from tests.storage.servers import Proxy, Rule

CANARIES = {
    "AWS_ACCESS_KEY_ID": "AKIACANARYCANARY0001",
    "AWS_SECRET_ACCESS_KEY": "canary-0002/ofthesecret0123456789abcdefg",
    "AWS_SESSION_TOKEN": "canary-0003-of-the-session",
    "LOWWATER_SPARK_SECRET": "canary-0004-of-spark",
    "LOWWATER_NOTIFY__URL": "https://user:canary-0005@127.0.0.1:9/hook/canary-0006",
    "PGPASSWORD": "canary-0007-of-postgres",
    "AIRFLOW_CONN_LOWWATER_SPARK": '{"conn_type": "spark", "host": "spark://h", "password": "canary-0008"}',
    "HTTPS_PROXY": "http://user:canary-0009@127.0.0.1:9",
}
PLANTED = ("AKIACANARY", "canary-000", "canary-0002%2Fof")
KEYS = [
    "s3://AKIACANARYCANARY0001:canary-0002@lakes/office",
    "s3://AKIACANARYCANARY0001:canary/0002@lakes/office",
    "s3://AKIACANARYCANARY0001%3Acanary-0002%40lakes/office",
    "S3A://AKIACANARYCANARY0001:canary-0002@lakes/office",
    "s3://canary-0002@lakes/office",
    "s3://:canary-0002@lakes",
    "s3://AKIACANARYCANARY0001:0002/canary-0002@lakes",
    "gs://AKIACANARYCANARY0001:canary-0002@lakes/office",
    "az://canary-0002@lakes/office",
    "abfss://office:canary-0002@lakes.dfs.core.windows.net/x",
    "https://AKIACANARYCANARY0001:canary-0002@127.0.0.1:9/lakes/office",
    "https://127.0.0.1:9/lakes/office?X-Amz-Signature=canary-0002",
    "s3://lakes/office?X-Amz-Credential=AKIACANARYCANARY0001&X-Amz-Signature=canary-0002",
    "az://lakes/office?sv=2024&sig=canary-0002",
    "gopher://lakes/office?X-Amz-Signature=canary-0002",
    "s3://lakes/office#canary-0002",
]


def held(text: str) -> list[str]:
    return [name for name in PLANTED if name in text]


@pytest.mark.slow
@pytest.mark.parametrize("address", KEYS)
def test_an_address_with_keys_in_it_is_refused_and_not_repeated(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for read in (parse, capture_path):
        with pytest.raises(ValueError) as refused:
            read(address)
        assert not held(str(refused.value)) and "0002" not in str(refused.value)
    settings = tmp_path / "lake" / "lowwater.toml"
    settings.parent.mkdir()
    if "#" not in address:  # a name in a pattern may have it
        settings.write_text(f"[links.a]\ncaptures = '{address}/%Y.pcap'\nrotation = '1h'\n")
        with pytest.raises(ConfigError, match=r"links\.a\.captures") as unread:
            load_config(settings.parent)
        assert not held(str(unread.value))
    capture = next(iter(generate(tmp_path / "captures", START, 1, ["a"], rate=0.1, seed=1))).path
    for command in (
        ["rows", "flows", "--lake", address],
        ["inspect", address],
        ["init", address, "--lake", tmp_path / "new"],
        ["ingest", "--lake", tmp_path / "other", "--link", "a", address],
        ["ingest", "--lake", address, "--link", "a", capture],
    ):
        monkeypatch.setenv("LOWWATER_DEBUG", "1")
        said = lowwater(*command)
        assert said.code in (1, 2) and not held(said.out + said.err), said
    monkeypatch.delenv("LOWWATER_DEBUG")
    settings.unlink(missing_ok=True)
    assert not written(tmp_path)


def written(*folders: Path) -> list[tuple[str, list[str]]]:
    """Files below folders that hold a secret, or that have it in their name."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            data = path.read_bytes().decode("latin-1") if path.is_file() else ""
            if secrets := held(str(path) + data):
                found.append((str(path), secrets))
    return found


def open_to_others(*folders: Path) -> list[str]:
    """Files of the run that every user of the machine may read."""
    return [str(path) for folder in folders for path in folder.rglob("*") if path.is_file() and path.stat().st_mode & 7]


def command_lines() -> str:
    """The command lines of this process and its children, which every user of the machine may read."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    lines = []
    for process in family:
        with suppress(psutil.Error):
            lines += process.cmdline()
    return "\n".join(lines)


@pytest.fixture
def planted(proxy: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files of a run that has every secret in its environment."""
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder


@pytest.mark.slow
@pytest.mark.usefixtures("moto")  # another server refuses the token of the session
def test_no_secret_is_in_what_commands_write_and_print(
    planted: Path, root: ObjectPath, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capture = next(iter(generate(tmp_path / "captures", START, 1, ["main1"], rate=0.5, seed=1))).path
    objects.upload(root / "taps" / capture.name, capture)
    lake, queries = root / "lake", tmp_path / "queries"
    queries.mkdir()
    (queries / "q.gsql").write_text(
        "DEFINE { query_name 'n'; }\nSELECT tb, count(*) AS n FROM main1.IPV4 GROUP BY time/60 AS tb;\n"
    )
    span = f"{format_instant(START)}/{format_instant(START + HOUR)}"
    address = f"{root}/taps/{capture.name}"
    open_lake(lake)
    said = []
    for command in (
        ["ingest", "--lake", lake, "--link", "main1", "--covers", span, address],
        ["plan", "--lake", lake, "--queries", queries],
        ["status", "--lake", lake, "--queries", queries],
        ["report", "--lake", lake, "--html", tmp_path / "site", "--queries", queries],
        ["metrics", "--lake", lake, "--queries", queries],
        ["streams", "--lake", lake],
        ["skew", "--lake", lake],
        ["inspect", address],
        ["run", queries / "q.gsql", "--capture", f"main1={address}", "--engine", "reference", "--out", tmp_path / "o"],
        ["export", "--lake", lake, "--link", "main1", "--out", tmp_path / "x.pcap"],
        ["maintain", "--lake", lake, "--queries", queries],
        ["maintain", "--lake", lake, "--verify"],
        ["rows", "nothing", "--lake", lake],
    ):
        done = lowwater(*command)
        said.append(f"{command[0]} {done.code}\n{done.out}{done.err}{''.join(capfd.readouterr())}")
        assert not held(command_lines())
    assert "ingest 0" in said[0] and "run 0" in "".join(said), said
    assert not held("".join(said))
    assert not written(planted, tmp_path)
    kept = objects.below(root)
    assert len(kept) > 10 and not [str(path) for path in kept if held(str(path))]
    assert not [str(path) for path in kept if held(objects.read(path)[0].decode("latin-1"))]
    assert not open_to_others(planted)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["keys", "403", "skewed", "500"])
def test_no_secret_is_in_a_traceback_of_a_store_that_refuses(
    fault: str,
    planted: Path,
    root: ObjectPath,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With LOWWATER_DEBUG, where the errors below are seen too."""
    monkeypatch.setenv("LOWWATER_DEBUG", "1")
    monkeypatch.setenv("LOWWATER_STORE_PATIENCE", "0.5")
    objects._client.cache_clear()
    proxy.breaks(Rule(fault, times=30))
    for command in (["status", "--lake", root], ["ingest", "--lake", root, "--link", "a", root / "a.pcap"]):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(out), pytest.raises(BaseException) as ended:
            main([str(word) for word in command])
        out.write(whole_traceback(ended.value))
        text = out.getvalue() + "".join(capfd.readouterr())
        assert text and not held(text), text
    objects._client.cache_clear()


@pytest.mark.nightly
@pytest.mark.slow
def test_no_secret_is_in_checks_and_previews_of_the_page_write(planted: Path, root: ObjectPath) -> None:
    """Nor are others than those of the store in the environment of their processes, and those only for a lake in it."""
    for lake in (planted / "none", root / "lake"):
        checker = Checker()
        text = "SELECT time FROM main1.TCP"
        try:
            said = [str(checker.check(lake, text, "", ["main1"]))]
            (process,) = checker._processes.values()
            assert process._child is not None
            given = Path(f"/proc/{process._child.pid}/environ").read_bytes().decode()
            said.append(Path(f"/proc/{process._child.pid}/cmdline").read_bytes().decode())
            said += [value for value in given.split("\0") if not value.startswith("AWS_")]
            assert ("AWS_" in given) == ("://" in str(lake))
        finally:
            checker.end()
        assert not held("".join(said)), said
    with pytest.raises(LowwaterError) as refused:  # a process of the same kind
        run_preview(PreviewRequest(str(root / "lake"), text, "", ("main1",), START, START + HOUR))
    assert not held(str(refused.value))
    assert not written(planted)


def whole_traceback(error: BaseException | None) -> str:
    """What programs that report errors show."""
    text = []
    while error is not None:
        text += traceback.TracebackException.from_exception(error, capture_locals=True).format()
        text.append(repr(error.args))
        error = error.__cause__ or error.__context__
    return "".join(text)
