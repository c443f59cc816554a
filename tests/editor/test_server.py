"""`lowwater lsp` as an editor sees it: the real process, spoken to by the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.client import Client, editor

pytestmark = pytest.mark.slow

TEXT = """\
-- flows of a link
DEFINE { query_name 'flows'; }
SELECT tb*60 AS begin, srcIP, count(*) AS packets, sum(len) AS bytes
FROM main1.TCP
GROUP BY time/60 AS tb, srcIP;

DEFINE { query_name 'large'; }
SELECT F.begin, F.srcIP, F.bytes
FROM flows F
WHERE F.bytes > 1000
"""


@pytest.fixture(scope="module")
def edited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Path]]:
    folder = tmp_path_factory.mktemp("editor")
    (folder / "lowwater.toml").write_text(
        '[links.main1]\nskew = "1s"\n[links.main2]\nskew = "1s"\n[sets]\nlinks = ["main1", "main2"]\n', encoding="utf-8"
    )
    with editor(folder) as client:
        yield client, folder
        assert client.messages == []


def place(text: str, mark: str, within: int = 0) -> tuple[int, int]:
    """Line and character of a text, counted from 0."""
    at = text.index(mark) + within
    return text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1


def shown(text: str, problem: dict) -> str:  # type: ignore[type-arg]
    """The text under a diagnostic."""
    start, end = problem["range"]["start"], problem["range"]["end"]
    assert start["line"] == end["line"]
    return text.split("\n")[start["line"]][start["character"] : end["character"]]


def test_mistakes_of_all_statements_have_ranges_and_hints(edited: tuple[Client, Path]) -> None:
    client, folder = edited
    text = TEXT.replace("sum(len)", "sum(lenn)") + ";\nDEFINE { query_name 'c'; }\nSELECT timee FROM main1.UDP;\n"
    text += "DEFINE { query_name 'd'; }\nSELECT time FROM main1.UDP WHERE"
    first, second, third = client.open(folder / "wrong.gsql", text)
    assert shown(text, first) == "lenn"
    assert "hint: did you mean len" in first["message"]
    assert first["severity"] == 1 and first["source"] == "lowwater"
    assert shown(text, second) == "timee", "a statement that does not parse hides no other mistake"
    assert shown(text, third) == "WHERE"


def test_positions_are_units_of_utf16(edited: tuple[Client, Path]) -> None:
    client, folder = edited
    text = "SELECT time, '\U0001f600é' AS face, lenn FROM main1.TCP"
    (problem,) = client.open(folder / "units.gsql", text)
    units = text.encode("utf-16-le")
    start, end = (problem["range"][side]["character"] for side in ("start", "end"))
    assert units[2 * start : 2 * end].decode("utf-16-le") == "lenn"
    assert "int" in client.hover(folder / "units.gsql", 0, 8)


def test_completion_knows_where_it_is(edited: tuple[Client, Path]) -> None:
    client, folder = edited
    path = folder / "complete.gsql"
    client.open(path, TEXT)
    columns = client.labels(path, *place(TEXT, "F.bytes >", 2))
    assert columns == ["begin", "srcIP", "packets", "bytes"]
    sources = client.labels(path, *place(TEXT, "flows F", 0))
    assert {"flows", "main1", "main2", "[links]", "TCP"} <= set(sources)
    assert "srcIP" not in sources and "large" not in sources
    protocols = client.labels(path, *place(TEXT, "main1.TCP", 6))
    assert {"TCP", "UDP", "DNS", "ETH"} <= set(protocols) and "SELECT" not in protocols
    names = client.labels(path, *place(TEXT, "srcIP, count", 0))
    assert {"srcIP", "time", "count", "str_match_start", "tb", "WHERE"} <= set(names)
    options = client.labels(path, *place(TEXT, "query_name", 0))
    assert {"query_name", "visibility", "sample"} <= set(options)
    assert client.labels(path, *place(TEXT, "of a link")) == []
    items = client.at("completion", path, *place(TEXT, "srcIP, count", 0))["items"]
    documents = {item["label"]: item.get("documentation", {}).get("value", "") for item in items}
    assert "packet clock" in documents["time"]
    assert "rows; with an argument" in documents["count"]


def test_hover_has_types_progress_and_documents(edited: tuple[Client, Path]) -> None:
    client, folder = edited
    path = folder / "hover.gsql"
    client.open(path, TEXT)
    assert client.hover(path, *place(TEXT, "srcIP, count")).startswith("`srcIP`: **ip**, column of protocol TCP")
    assert "temporal: increases with the packet clock (ns), `clock/1000000000`" in client.hover(
        path, *place(TEXT, "time/60")
    )
    count = client.hover(path, *place(TEXT, "count(*)"))
    assert "count(*): int" in count and "rows; with an argument" in count
    assert "clock/1000000000/60*60" in client.hover(path, *place(TEXT, "F.begin", 2))
    assert "packets with `protocol = 6" in client.hover(path, *place(TEXT, "TCP"))
    flows = client.hover(path, *place(TEXT, "flows F"))
    assert "query flows" in flows and "`packets`: int" in flows
    assert "link main1" in client.hover(path, *place(TEXT, "main1"))
    assert "name of the query" in client.hover(path, *place(TEXT, "query_name"))
    assert client.hover(path, 0, 4) == ""


def test_definitions(edited: tuple[Client, Path], tmp_path: Path) -> None:
    client, folder = edited
    path = folder / "define.gsql"
    client.open(path, TEXT)

    def target(mark: str, within: int = 0) -> str:
        found = client.at("definition", path, *place(TEXT, mark, within))
        assert found["uri"] == path.as_uri()
        start, end = found["range"]["start"], found["range"]["end"]
        return f"{start['line']}:{TEXT.splitlines()[start['line']][start['character'] : end['character']]}"

    assert target("flows F") == "1:'flows'"
    assert target("F.bytes >", 2) == "2:bytes"
    assert target("F.bytes >") == "8:F"
    assert target("tb*60") == "4:tb"
    assert client.at("definition", path, *place(TEXT, "srcIP, count")) is None


def test_definitions_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "types.gsql").write_text(
        "PROTOCOL LOG {\n    uint start get_csv_uint (increasing, unit s);\n    IP client get_csv_ip;\n}\n", "utf-8"
    )
    (tmp_path / "a.gsql").write_text("DEFINE { query_name 'first'; }\nSELECT time, srcIP FROM main1.TCP\n", "utf-8")
    (tmp_path / "own.fun").write_text("MODULE 'own.py';\nint FUN [COST LOW] twice (int);\n", "utf-8")
    marker = tmp_path / "ran"
    (tmp_path / "own.py").write_text(f"open({str(marker)!r}, 'w')\ndef twice(x): return 2 * x\n", "utf-8")
    (tmp_path / "lowwater.toml").write_text(
        '[links.main1]\nskew = "1s"\n[links.web]\nkind = "csv"\nschemas = "types.gsql"\nprotocol = "LOG"\n'
        'skew = "1s"\n[query_sets.q]\nfiles = ["a.gsql", "b.gsql"]\nfunctions = ["own.fun"]\n',
        "utf-8",
    )
    text = "DEFINE { query_name 'second'; }\nSELECT twice(time) AS t, srcIP FROM first;\n"
    text += "DEFINE { query_name 'third'; }\nSELECT start, client FROM web.LOG\n"
    path = tmp_path / "b.gsql"
    with editor(tmp_path) as client:
        assert [problem for problem in client.open(path, text) if problem["severity"] == 1] == []
        found = client.at("definition", path, *place(text, "first"))
        assert found["uri"] == (tmp_path / "a.gsql").as_uri() and found["range"]["start"]["line"] == 0
        assert "query first" in client.hover(path, *place(text, "first"))
        found = client.at("definition", path, *place(text, "LOG"))
        assert found["uri"] == (tmp_path / "types.gsql").as_uri()
        found = client.at("definition", path, *place(text, "client"))
        assert found["range"]["start"] == {"line": 2, "character": 7}
        found = client.at("definition", path, *place(text, "twice"))
        assert found["uri"] == (tmp_path / "own.fun").as_uri()
        assert "Declared in" in client.hover(path, *place(text, "twice"))
        assert client.messages == []
    assert not marker.exists(), "no Python of a user has run"


def test_formatting_is_canonical_and_keeps_comments(edited: tuple[Client, Path]) -> None:
    client, folder = edited
    path = folder / "format.gsql"
    text = "-- first\nselect  tb , COUNT( * )  as n from main1.TCP group by time / 60 as tb ;\n\n\n"
    text += "-- second\ndefine {query_name 'b';} select time -- why\nfrom main1.UDP;\nDEFINE{query_name 'c';}select ,"
    client.open(path, text)
    once = client.formatted(path, text)
    assert once == (
        "-- first\nSELECT tb, count(*) AS n\nFROM main1.TCP\nGROUP BY time/60 AS tb;\n\n"
        "-- second\ndefine {query_name 'b';} select time -- why\nfrom main1.UDP;\n\nDEFINE{query_name 'c';}select ,\n"
    )
    client.change(path, once)
    assert client.formatted(path, once) == once


def test_a_condition_of_a_join_has_columns_and_the_join_behind_it_has_sources(edited: tuple[Client, Path]) -> None:
    client, folder = edited
    text = (
        "DEFINE { query_name 'j'; }\nSELECT A.time FROM main1.TCP A\nLEFT OUTER JOIN main2.TCP B ON A.time = B.time\n"
        "JOIN main2.UDP C USING (time)\nWHERE C.len > 1\n"
    )
    path = folder / "join.gsql"
    client.open(path, text)
    for place_of in ("A.time = ", "B.time\n", "C.len"):
        columns = client.labels(path, *place(text, place_of, 2))
        assert {"time", "srcIP"} <= set(columns) and "TCP" not in columns, place_of
    names = client.labels(path, *place(text, "A.time = ", 0))
    assert {"A", "B", "C", "time"} <= set(names) and "main1" not in names
    assert {"main1", "main2"} <= set(client.labels(path, *place(text, "main2.UDP", 0)))
