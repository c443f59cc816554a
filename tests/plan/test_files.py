"""Files that queries name: those in the folder of the query file, and in folders of the settings; no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.errors import QueryError
from lowwater.gsql.nodes import Place
from lowwater.plan.text import Text
from tests import capturemaker as maker
from tests.replay.support import Said, lowwater

START = 1_600_000_000 * 1_000_000_000
WATCH = (
    "DEFINE {{ query_name 'list'; filename '{file}'; refresh_interval '60'; }}\n"
    "WATCHLIST FIELDS {{ IP address (key); uint kind; }};\n"
    "DEFINE {{ query_name 'q'; }}\n"
    "SELECT P.time, W.kind WATCHLIST_JOIN FROM UDP P, list W WHERE P.srcIP = W.address\n"
)
CALL = "DEFINE {{ query_name 'q'; }}\nSELECT time, {call} AS x FROM UDP\n"
QUERIES = {
    "getlpmid": CALL.replace("{call}", "getlpmid(srcIP, '{file}')"),
    "getv6lpmid": CALL.replace("{call}", "getv6lpmid(srcIP, '{file}')"),
    "int_to_string_map": CALL.replace("{call}", "int_to_string_map(destPort, '{file}')"),
    "watch list": WATCH,
}
CONTENT = {
    "getlpmid": "10.0.0.0/8 7\n",
    "getv6lpmid": "10.0.0.0/8 7\n",
    "int_to_string_map": "53,dns\n",
    "watch list": "10.0.0.1,7\n",
}


def written(folder: Path, name: str, file: Path | str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "q.gsql"
    path.write_text(QUERIES[name].format(file=file))
    return path


def capture(folder: Path) -> Path:
    path = folder / "a.pcap"
    path.write_bytes(maker.pcap_bytes([(START, maker.udp("10.0.0.1", "10.0.0.2", 1, 53, b"x"))]))
    return path


def run(folder: Path, query: Path, *options: object) -> Said:
    options = ("--capture", f"a={capture(folder)}", "--out", folder / "out", "--engine", "reference", *options)
    return lowwater("run", query, *options)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_file_outside_is_refused_and_nothing_of_it_is_shown(tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("root:x:0:0:root\n")
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "link.txt").symlink_to(secret)
    (tmp_path / "queries" / "circle.txt").symlink_to("circle.txt")
    for file in (secret, "/etc/passwd", tmp_path / "queries" / ".." / "secret.txt", tmp_path / "queries" / "link.txt"):
        query = written(tmp_path / "queries", name, file)
        for said in (lowwater("check", query), lowwater("explain", query), run(tmp_path, query)):
            assert said.code == 1 and "reads files in the folder of its own file only" in said.err, said.err
            assert "root:" not in said.err + said.out and "[files]" in said.err
    said = lowwater("check", written(tmp_path / "queries", name, tmp_path / "queries" / "circle.txt"))
    assert said.code == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_file_beside_the_query_or_in_a_folder_of_the_settings_is_read(tmp_path: Path, name: str) -> None:
    beside = tmp_path / "queries" / "lists" / "x.txt"
    beside.parent.mkdir(parents=True)
    beside.write_text(CONTENT[name])
    query = written(tmp_path / "queries", name, beside)
    assert lowwater("check", query).code == 0
    assert run(tmp_path, query).code == 0
    named = tmp_path / "tables" / "x.txt"
    named.parent.mkdir()
    named.write_text(CONTENT[name])
    query = written(tmp_path / "queries", name, named)
    settings = tmp_path / "settings.toml"
    settings.write_text('[links.a]\n[files]\nfolders = ["tables"]\n')
    assert lowwater("check", query).code == 1
    assert lowwater("check", query, "--links", settings).code == 0
    said = run(tmp_path, query, "--links", settings)
    assert said.code == 0, said.err
    assert "7" in (tmp_path / "out" / "q.csv").read_text() or "dns" in (tmp_path / "out" / "q.csv").read_text()


def test_a_text_without_a_file_reads_below_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Text().require_inside("x/y.txt", Place(), ())
    with pytest.raises(QueryError, match="reads files"):
        Text().require_inside("../y.txt", Place(), ())
    Text().require_inside("../y.txt", Place(), (tmp_path.parent,))
