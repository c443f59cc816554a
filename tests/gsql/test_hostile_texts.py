"""Hostile query texts through all that plans them: an answer or a mistake with its place, in time like their length."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lowwater_editor.checking import check_scripts, formatted, make_script
from lowwater_editor.names import complete, learn, meaning_at
from lowwater_review.checking import LONGEST_PLAN, known_of

from lowwater.config import Config
from lowwater.errors import LowwaterError, QueryErrors
from lowwater.lake.layout import open_lake
from lowwater.limits import QUERY_MISTAKES
from lowwater.plan.context import Links
from lowwater.plan.queryset import plan_texts
from lowwater.replay.preview import PreviewRequest, run_preview
from tests.breadth import examples, some
from tests.capturemaker import pcap_bytes, tcp
from tests.cli.hostile import clean
from tests.editor.test_texts import CONTEXT
from tests.gsql.hostile_texts import LONGEST, TEXTS

pytestmark = pytest.mark.slow
MOST = 60.0
"""Processor seconds of a text; the largest needs one. What doubles needs hours."""


SOME = list(TEXTS)[:: max(1, len(TEXTS) // examples(8))]
"""Texts for what costs a process or a run; in `make fuzz` all."""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake")
    open_lake(root)
    return root


def edited(text: str, lake: Path) -> object:
    """What the editors ask for, but the mistakes: the page Write asks for them too."""
    scripts = [make_script("q.gsql", text)]
    knowledge = learn(scripts, CONTEXT)
    for at in (0, len(text) // 2, len(text)):
        complete(knowledge, scripts[0], at)
        meaning_at(knowledge, scripts[0], at)
    return formatted(scripts[0])


def written(text: str, lake: Path) -> object:
    """What the page Write says, in the process that it runs."""
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        return check_scripts([make_script("q.gsql", text)], CONTEXT, Config())  # no form sends them
    answer: dict[str, Any] = known_of({"lake": lake, "text": text, "set": "", "links": ["main1", "main2"]})
    assert len(answer["explained"]) <= LONGEST_PLAN + 100
    return answer


WAYS: dict[str, Callable[[str, Path], object]] = {"edited": edited, "written": written}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", some(TEXTS, 3))
def test_no_text_takes_long(name: str, way: str, lake: Path) -> None:
    text = TEXTS[name]
    assert len(text) <= LONGEST + 10
    before = time.process_time()
    WAYS[way](text, lake)
    assert time.process_time() - before < MOST


def written_file(name: str, folder: Path) -> Path:
    file = folder / "q.gsql"
    file.write_bytes(TEXTS[name].encode(errors="surrogatepass"))
    return file


@pytest.mark.parametrize("name", SOME)
def test_explain_run_and_plan_end_with_one_message(name: str, tmp_path: Path) -> None:
    """Over two packets: rows, or one message, in time like the length of the text."""
    file = written_file(name, tmp_path)
    capture = tmp_path / "main1.pcap"
    packets = [tcp("10.0.0.1", "10.0.0.2", 1, 80), tcp("10.0.0.1", "10.0.0.2", 2, 80)]
    capture.write_bytes(pcap_bytes([(1_700_000_000 * 10**9 + at, frame) for at, frame in enumerate(packets)]))
    root = tmp_path / "lake"
    open_lake(root)
    (root / "lowwater.toml").write_text("[links.main1]\n[links.main2]\n[query_sets.q]\n")
    run = ("run", file, "--engine", "reference", "--out", tmp_path / "out")
    for arguments in (
        ("check", file),
        ("explain", file),
        (*run, "--capture", f"main1={capture}", "--capture", f"main2={capture}"),
        ("plan", "--lake", root, "--queries", tmp_path),
    ):
        before = time.process_time()
        said = clean(*arguments, code=None)
        assert said.code in (0, 1) and time.process_time() - before < MOST, arguments
        assert len(said.err) < 200_000 and (said.err.count("error: ") <= 1 or arguments[0] == "check"), said.err[:2000]


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", SOME[1::2])
def test_a_preview_ends_with_rows_or_one_message(name: str, lake: Path) -> None:
    text = TEXTS[name].encode(errors="replace").decode()
    asked = PreviewRequest(str(lake), text, "", ("main1", "main2"), 0, 10**9)
    with pytest.raises(LowwaterError) as refused:  # the lake has no packets
        run_preview(asked)
    assert "\x00" not in repr(str(refused.value)) and len(str(refused.value)) < 200_000


UNKNOWN = {
    "columns": "SELECT " + ", ".join(f"nm{number}" for number in range(20_000)) + " FROM a.TCP",
    "queries": " ".join(f"DEFINE {{ query_name q{number}; }} SELECT nm{number} FROM a.TCP;" for number in range(4_000)),
    "functions": "SELECT " + ", ".join(f"fn{number}(time)" for number in range(12_000)) + " FROM a.TCP",
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_of_thousands_of_mistakes_the_first_are_told(kind: str) -> None:
    """A hint costs milliseconds: 200 kB of unknown names took 9 s."""
    with pytest.raises(QueryErrors) as refused:
        plan_texts([("q.gsql", UNKNOWN[kind])], Links(None))
    assert QUERY_MISTAKES < len(refused.value.errors) <= QUERY_MISTAKES + 20
    assert refused.value.errors[-1].message == "further mistakes are not looked for"
