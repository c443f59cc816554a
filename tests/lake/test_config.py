"""The settings: parsers, defaults, messages, and the files of a rotation."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from lowwater.config import Config, Link, QuerySet, Section, load_config
from lowwater.errors import ConfigError
from lowwater.instants import (
    HOUR,
    SECOND,
    format_duration,
    format_instant,
    parse_duration as duration,
    parse_instant as instant,
)
from lowwater.lake.files.patterns import declared_coverage, files_of
from tests.lake.support import BASE
from tests.replay.support import ROOT

SECTIONS = [name for name, field in Config.model_fields.items() if isinstance(field.default, Section)]
"""Of one table each; those of links and query sets have names."""

BESIDE = {
    "connection",
    "remote",
    "separator",
    "quote",
    "header",
    "null",
    "decimal",
    "protocol",
    "schemas",
    "delay",
    "anonymise",
}
"""Settings that the text names: of other kinds of links, of experiments, and one that excludes others."""

FULL = """
lake = "lake"
[interval]
length = "10 min"
[links.main1]
captures = "captures/main1-%Y%m%d%H.pcap*"
rotation = "1h"
skew = "250ms"
since = 2027-01-15T08:00:00Z
until = "2027-01-16"
policy = "exclude"
[links.control]
skew = 2
max_jump = "5m"
[sets]
all = ["main1", "control"]
[query_sets.flows]
files = "queries/flows.gsql"
params = { port = 80 }
[thresholds]
violating = 0.5
failed = { warning = 0.1, critical = 0.2 }
latest = "10 min"
[links.main1.thresholds]
malformed = 0.001
latest = { warning = "1s", critical = "1h" }
violating = { warning = 0.0 }
[replay]
heartbeat = "data-driven"
chunk = 1024
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1s", SECOND), ("500ms", SECOND // 2), ("10 min", 600 * SECOND), ("1h", HOUR), (2, 2 * SECOND), (0.1, 10**8)],
)
def test_durations(text: object, expected: int) -> None:
    assert duration(text) == expected


@given(st.integers(0, 1 << 62))
def test_durations_and_instants_read_back(value: int) -> None:
    assert duration(format_duration(value)) == value
    assert instant(format_instant(value)) == value


def test_instants() -> None:
    assert instant("2027-01-15T08:00:00Z") == instant("2027-01-15 09:00+01:00") == instant("2027-01-15T08:00") == BASE
    assert instant("1970-01-01T00:00:00.000000001") == 1
    for text in ("yesterday", "2027-13-01", "1969-12-31T23:59:59Z", "2027-01-15T25:00"):
        with pytest.raises(ValueError):
            instant(text)


def test_the_whole_schema(tmp_path: Path) -> None:
    path = tmp_path / "lowwater.toml"
    path.write_text(FULL)
    config = load_config(path=path)
    assert (config.lake, config.interval.length) == (tmp_path / "lake", 600 * SECOND)
    main, control = config.link("main1"), config.link("control")
    assert (main.skew, main.jump, main.since, main.policy) == (SECOND // 4, SECOND // 4 + 60 * SECOND, BASE, "publish")
    assert main.captures == (str(tmp_path / "captures/main1-%Y%m%d%H.pcap*"),)
    assert (control.skew, control.jump, control.policy) == (2 * SECOND, 300 * SECOND, "fail")
    assert config.query_sets["flows"].files == (str(tmp_path / "queries/flows.gsql"),)
    assert (config.replay.heartbeat, config.replay.chunk) == ("data-driven", 1024)
    assert config.link("main1/eth0") == main


def test_variables_go_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lowwater.toml").write_text('[replay]\nmemory = "1g"\n[links."main1/eth-0"]\nskew = "1s"\n')
    monkeypatch.setenv("LOWWATER_REPLAY__MEMORY", "4g")
    monkeypatch.setenv("LOWWATER_INTERVAL__LENGTH", "15 min")
    monkeypatch.setenv("LOWWATER_LINKS__MAIN1_ETH_0__SKEW", "250ms")
    monkeypatch.setenv("LOWWATER_LINKS__B__SKEW", "2")
    monkeypatch.setenv("LOWWATER_SETS__BOTH", '["main1/eth-0", "b"]')
    monkeypatch.setenv("LOWWATER_LAKE", "of no matter")
    config = load_config(tmp_path)
    assert (config.replay.memory, config.interval.length) == ("4g", 900 * SECOND)
    assert {name: link.skew for name, link in config.links.items()} == {"main1/eth-0": SECOND // 4, "b": 2 * SECOND}
    assert config.sets == {"both": ("main1/eth-0", "b")}
    (tmp_path / "lowwater.toml").unlink()
    monkeypatch.delenv("LOWWATER_SETS__BOTH")
    assert load_config(tmp_path).replay.memory == "4g", "a lake without a file has variables too"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("LOWWATER_REPLAY__CHUNK", "none", "LOWWATER_REPLAY__CHUNK: replay.chunk: "),
        ("LOWWATER_LINKS__A__SKEW", "soon", "LOWWATER_LINKS__A__SKEW: links.a.skew: 'soon' is no duration"),
        ("LOWWATER_REPLAY__MEMROY", "1g", "replay: unknown key 'memroy'; did you mean 'memory'?"),
        ("LOWWATER_LINKS__A__SKEW__X", "1", "LOWWATER_LINKS__A__SKEW__X: links.a.skew is a value"),
    ],
)
def test_a_wrong_variable_is_named(
    name: str, value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lowwater.toml").write_text('[links.a]\nskew = "1s"\n')
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as raised:
        load_config(tmp_path)
    assert said in raised.value.message


def test_rotation(tmp_path: Path) -> None:
    link = Link(captures=f"{tmp_path}/%Y/m-%Y%m%d%H*.pcap?", rotation="1h")  # type: ignore[arg-type]
    folder = tmp_path / "2027"
    folder.mkdir()
    names = [f"m-202701150{hour}{rest}.pcapx" for hour in (7, 8, 9) for rest in ("", "-b")] + [
        "m-2027139999.pcapx",
        "x",
    ]
    for name in names:
        (folder / name).write_bytes(b"")
    assert declared_coverage(link, folder / names[2]) == (BASE, BASE + HOUR)
    assert declared_coverage(link, tmp_path / "2026" / names[2]) is None
    assert declared_coverage(link, folder / "x") is None
    assert [path.name for path in files_of(link, BASE, BASE + HOUR)] == ["m-2027011508-b.pcapx", "m-2027011508.pcapx"]
    assert len(files_of(link, BASE - 1, BASE + HOUR + 1)) == 6
    with pytest.raises(ConfigError, match="unknown field '%q'"):
        files_of(Link(captures="a-%q"), 0, 1)
    with pytest.raises(ConfigError, match="no pattern"):
        files_of(Link(), 0, 1)
    assert Config().links == {}


def test_every_setting_is_documented() -> None:
    """docs/settings.md is a whole file of settings: it can be read, and it names every key of the schema."""
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    data = tomllib.loads(text.split("```toml\n")[1].split("```")[0])
    Config.model_validate(data)
    assert set(Config.model_fields) - set(data) == {"lake"}
    sections = [(Link, data["links"]["main1"]), (QuerySet, data["query_sets"]["flows"])]
    sections += [(type(getattr(Config(), name)), data[name]) for name in SECTIONS]
    for schema, written in sections:
        assert set(schema.model_fields) - set(written) <= BESIDE, schema
    assert all(f"`{name}" in text for name in BESIDE)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("%F/conn.%T-%ET.log", "2026-01-31/conn.23:00:00-00:00:00.log", "2026-01-31T23:00:00Z 2026-02-01T00:00:00Z"),
        ("%s-%Es.pcap", "1616334655-1616334755.pcap", "2021-03-21T13:50:55Z 2021-03-21T13:52:35Z"),
        ("%FT%H-%EFT%EH", "2026-01-01T00-2026-01-02T06", "2026-01-01T00:00:00Z 2026-01-02T06:00:00Z"),
        ("%FT%H-%EFT%EH", "2026-01-02T00-2026-01-01T06", ""),
        ("a_%s%6N", "a_1769865300250000", "2026-01-31T13:15:00.25Z 2026-01-31T14:15:00.25Z"),
        ("%Y%m%d_%H%M%S.%3N.%3N", "20260131_131500.250.125", "2026-01-31T13:15:00.250125Z 2026-01-31T14:15:00.250125Z"),
        ("%d%b%y-%I%p", "31jan26-12am", "2026-01-31T00:00:00Z 2026-01-31T01:00:00Z"),
        ("%d%b%y-%I%p", "31Jan26-12PM", "2026-01-31T12:00:00Z 2026-01-31T13:00:00Z"),
        ("%d%b%y-%I%p", "31Jan26-13PM", ""),
        ("%Y-%j", "2024-366", "2024-12-31T00:00:00Z 2024-12-31T01:00:00Z"),
        ("%Y-%j", "2026-366", ""),
        ("%FT%H%z", "2026-01-31T13-0330", "2026-01-31T16:30:00Z 2026-01-31T17:30:00Z"),
        ("%F_%H_%Z", "2026-10-25_02_CEST", "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z"),
        ("%F_%H_%Z", "2026-10-25_02_CET", "2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"),
        ("%F_%H_%Z", "2026-10-25_02_UTC", "2026-10-25T02:00:00Z 2026-10-25T03:00:00Z"),
        ("%F_%H_%Z", "2026-10-25_02_EST", ""),
        ("a_%Y%m%d%H.pcap%c", "a_2026013113.pcap", "2026-01-31T13:00:00Z 2026-01-31T14:00:00Z"),
        ("a_%Y%m%d%H.pcap%c", "a_2026013113.pcap00", "2026-01-31T13:00:00Z 2026-01-31T14:00:00Z"),
        ("a_%Y%m%d%H.pcap%c", "a_2026013113.pcap12", "2026-01-31T13:00:00Z 2026-01-31T14:00:00Z"),
        ("a_%n_%F", "a_x_2026-01-31", ""),
    ],
)
def test_what_a_name_declares(pattern: str, name: str, covered: str) -> None:
    zone = "Europe/Berlin" if "%Z" in pattern else "UTC"
    link = Link(captures=f"/x/{pattern}", rotation="1h", timezone=zone)  # type: ignore[arg-type]
    found = declared_coverage(link, Path(f"/x/{name}"))
    assert " ".join(map(format_instant, found or ())) == covered


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("2025-10-26/01:30-02:30", "2025-10-25T23:30:00Z 2025-10-26T00:30:00Z"),
        ("2025-10-26/02:00-02:00", "2025-10-26T00:00:00Z 2025-10-26T01:00:00Z"),
        ("2025-10-26/02:00-03:00", "2025-10-26T01:00:00Z 2025-10-26T02:00:00Z"),
        ("2025-10-26/02:30-02:00", "2025-10-26T00:30:00Z 2025-10-26T01:00:00Z"),
        ("2025-10-26/02:30-02:30", "2025-10-26T00:30:00Z 2025-10-26T01:30:00Z"),
        ("2025-10-26/02:30-03:00", "2025-10-26T01:30:00Z 2025-10-26T02:00:00Z"),
        ("2025-10-26/02:00-02:30", "2025-10-26T00:00:00Z 2025-10-26T00:30:00Z"),
        ("2025-10-26/02:00-06:00", "2025-10-26T00:00:00Z 2025-10-26T05:00:00Z"),
        ("2025-10-26/00:00-00:00", "2025-10-25T22:00:00Z 2025-10-26T23:00:00Z"),
        ("2025-03-30/01:00-03:00", "2025-03-30T00:00:00Z 2025-03-30T01:00:00Z"),
        ("2025-03-30/01:30-03:30", "2025-03-30T00:30:00Z 2025-03-30T01:30:00Z"),
        ("2025-03-30/03:00-04:00", "2025-03-30T01:00:00Z 2025-03-30T02:00:00Z"),
    ],
)
def test_what_a_name_with_an_end_declares_where_clocks_change(name: str, covered: str) -> None:
    link = Link(captures="/x/%F/%R-%ER", timezone="Europe/Berlin")  # type: ignore[arg-type]
    found = declared_coverage(link, Path(f"/x/{name}"))
    assert " ".join(map(format_instant, found or ())) == covered


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("%F/%R%Z-%ER", "2025-10-26/02:00CEST-02:00", "2025-10-26T00:00:00Z 2025-10-26T01:00:00Z"),
        ("%F/%R%Z-%ER", "2025-10-26/02:00CET-02:30", "2025-10-26T01:00:00Z 2025-10-26T01:30:00Z"),
        ("%F/%R%Z-%ER%EZ", "2025-10-26/02:00CEST-02:30CET", "2025-10-26T00:00:00Z 2025-10-26T01:30:00Z"),
    ],
)
def test_a_name_with_an_end_and_a_zone_covers_what_it_says(pattern: str, name: str, covered: str) -> None:
    link = Link(captures=f"/x/{pattern}", timezone="Europe/Berlin")  # type: ignore[arg-type]
    found = declared_coverage(link, Path(f"/x/{name}"))
    assert " ".join(map(format_instant, found or ())) == covered
