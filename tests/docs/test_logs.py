"""docs/logs.md: its examples run and give the rows of the page, which are what the tools did not see."""

from __future__ import annotations

import contextlib
import csv
import re
import tempfile
from pathlib import Path

import pytest

from lowwater.catalog.protocols import READY
from lowwater.catalog.values import format_ip, pack_ip
from tests.capture.logmaker import LOST, SECOND, pair
from tests.replay.support import lowwater

PAGE = Path(__file__).resolve().parents[2] / "docs" / "logs.md"
EXAMPLE = re.compile(
    r"```gsql\n(?P<text>.*?)```\n\n```sh\n(?P<command>.*?)\n```\n.*?```csv\n(?P<rows>.*?)```", re.DOTALL
)
TABLE = re.compile(r"(<!-- table: logs -->\n).*?(<!-- end -->)", re.DOTALL)


def examples(page: str) -> dict[str, re.Match[str]]:
    """The examples by the names of their output queries."""
    found = {match["command"].split()[2].partition(".")[0]: match for match in EXAMPLE.finditer(page)}
    assert len(found) == page.count("```csv\n")
    return found


def rows_of(example: re.Match[str], page: str, folder: Path) -> str:
    """Runs an example, and returns the file of its rows."""
    (settings,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    for name, data in pair()[1].items():
        (folder / name).write_bytes(data)
    (folder / "links.toml").write_text(settings, encoding="utf-8")
    words = example["command"].split()[1:]
    (folder / words[1]).write_text(example["text"], encoding="utf-8")
    with contextlib.chdir(folder):
        said = lowwater(*words)
    assert said.code == 0, said
    note = re.search("records of other types are left out: .*", said.err + said.out)
    assert (note is None) == ("eve=" not in example["command"])
    assert note is None or example["command"].split()[2] != "names.gsql" or note[0].strip() in " ".join(page.split())
    return (folder / "results" / f"{words[1].partition('.')[0]}.csv").read_text(encoding="utf-8")


def table() -> str:
    """The columns of every ready protocol by type."""
    lines = ["| protocol | columns |", "| --- | --- |"]
    for name, protocol in READY.items():
        shown = [(column, expr) for column, expr in protocol.columns.items() if column not in protocol.hidden]
        words = ", ".join(f"`{column}` {expr.type}" for column, expr in shown)
        lines.append(f"| `{name}` | {words} |")
    return "".join(f"{line}\n" for line in lines)


def page_of_today(page: str) -> str:
    """The page with the rows and the table that the code gives."""
    for name in examples(page):
        example = examples(page)[name]
        with tempfile.TemporaryDirectory() as folder:
            page = page[: example.start("rows")] + rows_of(example, page, Path(folder)) + page[example.end("rows") :]
    return TABLE.sub(lambda match: match[1] + table() + match[2], page)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["missed", "servers", "unseen", "requests", "names", "uncounted", "silent", "volume"])
def test_an_example_gives_the_rows_of_the_page_which_the_tool_missed(name: str, tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    example = examples(page)[name]
    written = rows_of(example, page, tmp_path)
    assert written == example["rows"]
    rows = [tuple(row.values()) for row in csv.DictReader(written.splitlines())]
    made = pair()[0]
    lost = [made[number] for number in LOST]
    seconds = {talk.number: str(talk.packets[0][0] // SECOND) for talk in made}
    expected: set[tuple[str, ...]]
    if name in ("missed", "uncounted"):
        expected = {(talk.community(), str(len(talk.packets)), "", "") for talk in lost if talk.kind != "echo"}
        number, key = (5, "C5") if name == "missed" else (6, "1006")
        count = len(made[number].packets)
        expected.add((made[number].community(), str(count), key, str(count - 1)))
    elif name == "unseen":
        expected = {("C9", made[9].name, "0")}
    elif name == "requests":
        expected = {(seconds[talk.number], talk.name, f"/{talk.number}") for talk in lost if talk.kind == "stream"}
    elif name == "silent":
        expected = {(talk.community(), f"/{talk.number}") for talk in lost if talk.kind == "stream"}
    elif name == "servers":
        expected = {(seconds[talk.number], talk.name) for talk in lost if talk.kind == "tls"}
    elif name == "names":
        expected = {(seconds[talk.number], talk.client, talk.name) for talk in lost if talk.kind == "dns"}
    else:
        counts: dict[tuple[str, int], list[int]] = {}
        for talk in made:
            for of_client, source in ((True, talk.client), (False, talk.server)):
                count = counts.setdefault((format_ip(pack_ip(source)), talk.protocol), [0, 0])
                packets = talk.count(of_client)[0]
                count[0] += packets
                count[1] += 0 if talk in lost else packets
        expected = {
            (source, str(protocol), str(all_of), str(some) if some else "")
            for (source, protocol), (all_of, some) in counts.items()
            if all_of != some
        }
    assert expected
    assert set(rows) == expected
    assert len(rows) == len(expected)


if __name__ == "__main__":
    PAGE.write_text(page_of_today(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
