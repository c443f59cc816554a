"""The settings: parsers, defaults, messages, and the files of a rotation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.config import NEVER, Config, Link, QuerySet, Section, load_config
from lowwater.errors import ConfigError
from lowwater.instants import HOUR, SECOND, format_duration, format_instant
from lowwater.instants import parse_duration as duration
from lowwater.instants import parse_instant as instant
from lowwater.lake.files.patterns import FIELDS, declared_coverage, files_of, regex_of
from tests.lake.support import BASE
from tests.replay.support import ROOT

SECTIONS = [name for name, field in Config.model_fields.items() if isinstance(field.default, Section)]
"""Of one table each; those of links and query sets have names."""

BESIDE = {"connection", "remote", "separator", "quote", "header", "null", "protocol", "schemas", "delay", "anonymise"}
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


@pytest.mark.parametrize("text", ["", "x", "1 fortnight", "-1s", True, "0.1ns", None, "1e3"])
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError):
        duration(text)


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


def test_thresholds_of_all_links_and_of_one(tmp_path: Path) -> None:
    (tmp_path / "lowwater.toml").write_text(FULL)
    config = load_config(tmp_path)

    def limits(link: str) -> dict[str, tuple[float, float]]:
        return {kind: (limit.warning, limit.critical) for kind, limit in config.limits(link)}

    growth, failed = (0.05, 1.0), (0.1, 0.2)
    spans: dict[str, dict[str, tuple[float, float]]] = {
        "control": {"latest": (600 * SECOND, NEVER)}, "main1": {"latest": (SECOND, HOUR)}
    }  # fmt: skip
    rest: dict[str, tuple[float, float]] = {"growth": growth, "failed": failed}
    assert limits("control") == {"violating": (0.5, 1.0), "malformed": (0.01, 0.1), **rest, **spans["control"]}
    assert limits("main1") == {"violating": (0.0, 0.0), "malformed": (0.001, 0.01), **rest, **spans["main1"]}
    assert limits("main1/eth0") == limits("main1")


def test_defaults_without_a_file(tmp_path: Path) -> None:
    config = load_config(tmp_path)
    assert (config.lake, config.interval.length, config.replay.heartbeat) == (tmp_path, HOUR, SECOND)
    assert (config.link("any").skew, config.link("any").jump) == (SECOND, 61 * SECOND)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[linsk.a]", "lowwater.toml: unknown key 'linsk'; did you mean 'links'?"),
        ('[links.a]\nskwe = "1s"', "lowwater.toml: links.a: unknown key 'skwe'; did you mean 'skew'?"),
        ('[links.a]\nskew = "soon"', "lowwater.toml: links.a.skew: 'soon' is no duration"),
        ('[links.a]\ncaptures = "%s.pcap"\nrotation = "900000 h"', "rotation: '900000 h' is longer than 100 years"),
        ('[links.a]\nskew = "500000h"', "links.a: skew: must be below"),
        ('[links.a]\npolicy = "ignore"', "links.a.policy: must be 'fail', 'wait' or 'publish'"),
        ('[links.a]\nseparator = ","', 'links.a: separator: one character, only for a link with kind = "csv"'),
        ("[links.a]\nheader = true", 'links.a: header: only for a link with kind = "csv"'),
        ('[links.a]\nkind = "csv"\nquote = ","', "links.a: separator and quote: are different characters"),
        ('[links.a]\nkind = "csv"\nquote = "ab"', "links.a.quote: "),
        ('[links.a]\nkind = "json"\npayload = 5', 'links.a: payload: only for a link with kind = "pcap"'),
        ('[links.a]\nkind = "json"\nsampling = true', "links.a: sampling and applications: only for a link"),
        ('[links.a]\nprotocol = "FLOW"', 'links.a: protocol: not for a link with kind = "pcap"'),
        ('[links.a]\nrotation = "1h"', "links.a: rotation: needs a pattern"),
        ('[links.a]\ntimezone = "Berlin"', "links.a.timezone: 'Berlin' is no time zone"),
        ('[links.a]\ntimezone = "../etc/passwd"', "links.a.timezone: '../etc/passwd' is no time zone"),
        ('[links.a]\nsince = "2027-01-02"\nuntil = "2027-01-01"', "links.a: until: must be after since"),
        ('[links."a b"]', "links.a b: is not a valid name of a link"),
        ('[sets]\nall = ["a"]\n[links.b]', "sets.all: no link 'a'"),
        ("[replay]\nslots = 1000", "replay: unknown key 'slots'"),
        ("[thresholds]\nviolating = true", "thresholds.violating: is no share; write a number from 0 to 1"),
        ("[thresholds]\nfailed = { critical = 0.5 }", "thresholds.failed: is no share"),
        ("[thresholds]\nfailed = 1.5", "thresholds.failed.warning: must be at most 1"),
        ('[thresholds]\nlatest = { warning = "2s", critical = "1s" }', "critical: must not be below warning"),
        ("[thresholds]\nlatest = true", "latest"),
        ("[thresholds]\nfailed = { warning = 0.2, critical = 0.1 }", "critical: must not be below warning"),
        ("[thresholds]\nfailed = { warning = 0.2, crit = 1 }", "unknown key 'crit'; did you mean 'critical'?"),
        ("[links.a.thresholds]\nviolated = 0", "links.a.thresholds: unknown key 'violated'; did you mean 'violating'?"),
        ("[interval]\nlength = 0", "interval.length: must be above 0; write for example length"),
        ("[links", "lowwater.toml: is not valid TOML"),
    ],
)
def test_messages_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "lowwater.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert message in str(caught.value)


def test_a_missing_file_that_was_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        load_config(tmp_path, tmp_path / "absent.toml")


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


def test_names_in_local_time() -> None:
    def covered(name: str, pattern: str, rotation: str) -> list[str] | None:
        link = Link(captures=f"/x/{pattern}", rotation=rotation, timezone="Europe/Berlin")  # type: ignore[arg-type]
        found = declared_coverage(link, Path(f"/x/{name}"))
        return None if found is None else [format_instant(bound) for bound in found]

    hourly = "a-%Y%m%d%H.pcap", "1h"
    assert covered("a-2027011509.pcap", *hourly) == ["2027-01-15T08:00:00Z", "2027-01-15T09:00:00Z"]
    assert covered("a-2027071510.pcap", *hourly) == ["2027-07-15T08:00:00Z", "2027-07-15T09:00:00Z"]
    assert covered("a-2027103102.pcap", *hourly) == ["2027-10-31T00:00:00Z", "2027-10-31T01:00:00Z"]
    daily = "a-%Y%m%d.pcap", "1d"
    assert covered("a-20270328.pcap", *daily) == ["2027-03-27T23:00:00Z", "2027-03-28T22:00:00Z"], "23 hours"
    assert covered("a-20271031.pcap", *daily) == ["2027-10-30T22:00:00Z", "2027-10-31T23:00:00Z"], "25 hours"
    assert covered("a-20271399.pcap", *daily) is None


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


def test_seconds_since_the_epoch_in_a_name() -> None:
    link = Link(captures="/x/dump-%s.pcap", rotation=60)
    assert declared_coverage(link, Path("/elsewhere/dump-120.pcap")) == (120 * SECOND, 180 * SECOND)


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


def test_the_fields_of_patterns_are_those_of_the_page() -> None:
    text = (
        (ROOT / "docs" / "settings.md").read_text(encoding="utf-8").split("<!-- fields -->")[1].split("<!-- end -->")[0]
    )
    rows = re.findall(r"^\| (`[^|]*) \| [^|]* \| `([^`]*)`: `([^`]*)` \|$", text, re.MULTILINE)
    assert len(rows) == text.count("\n| `")
    for _, pattern, name in rows:
        assert regex_of(pattern).fullmatch(name), (pattern, name)
    assert {f"%{field}" for field in FIELDS} <= {*re.findall(r"`(%\w+)`", " ".join(fields for fields, *_ in rows))}


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


def test_a_rotation_needs_a_date_and_a_count_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a pattern with the start"):
        Link(captures="a-%n.pcap%c", rotation="1h")  # type: ignore[arg-type]
    for count in ("", "1", "10", "x"):
        (tmp_path / f"a_2027011508.pcap{count}").write_bytes(b"")
    link = Link(captures=f"{tmp_path}/a_%Y%m%d%H.pcap%c", rotation="1h")  # type: ignore[arg-type]
    assert [path.suffix for path in files_of(link, BASE, BASE + 1)] == [".pcap", ".pcap1", ".pcap10"]
    assert files_of(link, BASE + HOUR, BASE + 2 * HOUR) == []
