"""`[[links.NAME.periods]]`: a recorder that was replaced, told by the names of files and the times that these tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowwater.capture.content.retention import DECODER_VERSION
from lowwater.capture.tables.options import READER_VERSION
from lowwater.config import Link, load_config
from lowwater.errors import ConfigError
from lowwater.instants import SECOND, format_instant, parse_instant
from lowwater.lake.files.patterns import files_of, is_of_other_period, named_coverage, naming, naming_of
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.folders import look
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.ingestion.record_options import record_options
from lowwater.lake.keys import outdated
from lowwater.lake.layout import open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import unread_lines
from tests.capturemaker import pcap_bytes, udp
from tests.lake.test_resolution import relabelled
from tests.replay.support import lowwater

CHANGE = "2026-03-01T00:20:00Z"
OLD = {"captures": "/c/old-%Y%m%d%H.pcap", "rotation": "1h"}


def link(*periods: dict[str, str], **settings: str) -> Link:
    return Link.model_validate({**OLD, **settings, "periods": list(periods)})


def covered(of: Link, name: str, first: str = "") -> str:
    """What a name says that its file covers, as `HH:MM HH:MM` (the day before with a minus), or nothing."""
    span, _ = named_coverage(of, Path("/c", name), parse_instant(first) if first else None)
    return "" if span is None else " ".join(format_instant(at)[5:16] for at in span)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("old-2026022823.pcap", "02-28T23:00 03-01T00:00"),
        ("old-2026030100.pcap", "03-01T00:00 03-01T00:20"),  # as far as the old recorder is that of the link
        ("old-2026030101.pcap", ""),
        ("new_20260301T0030.pcapng", ""),  # 23:30 in UTC: before it was there
        ("new_20260301T0110.pcapng", "03-01T00:20 03-01T00:25"),
        ("new_20260301T0125.pcapng", "03-01T00:25 03-01T00:40"),
        ("new_20260329T0300.pcapng", "03-29T01:00 03-29T01:15"),
    ],
)
def test_what_a_name_says_is_cut_to_the_period_of_its_recorder(name: str, says: str) -> None:
    new = {"captures": "/c/new_%Y%m%dT%H%M.pcapng", "rotation": "15 min", "timezone": "Europe/Berlin"}
    of = link({"since": CHANGE, **new})
    assert covered(of, name) == says
    assert is_of_other_period(of, Path("/c", name)) == (not says)


def test_what_a_period_does_not_give_is_as_before_it() -> None:
    of = link(
        {"since": "2026-03-01", "timezone": "Asia/Tokyo"},
        {"since": "2026-04-01", "captures": "/c/new-%Y%m%d%H.pcap"},
        timezone="Europe/Berlin",
    )
    assert [(each.settings.timezone, each.settings.captures) for each in of.pieces()] == [
        ("Europe/Berlin", ("/c/old-%Y%m%d%H.pcap",)),
        ("Asia/Tokyo", ("/c/old-%Y%m%d%H.pcap",)),
        ("Asia/Tokyo", ("/c/new-%Y%m%d%H.pcap",)),
    ]
    assert of.patterns == ("/c/old-%Y%m%d%H.pcap", "/c/new-%Y%m%d%H.pcap")


def test_the_first_record_decides_where_a_name_tells_a_time_of_both_recorders() -> None:
    """Clocks of names go back five hours: each name of these hours is one of the old recorder, and of the new one."""
    of = link({"since": "2026-03-01", "timezone": "Etc/GMT+5"})
    name = "old-2026022822.pcap"
    assert covered(of, name) == covered(of, name, "2026-02-28T22:10Z") == "02-28T22:00 02-28T23:00"
    assert covered(of, name, "2026-03-01T03:10Z") == "03-01T03:00 03-01T04:00"
    assert naming_of(of, Path("/c", name)) == "" and naming_of(of, Path("/c/old-2026022818.pcap")) == naming(of)


def test_names_of_a_link_without_periods_are_known_as_before() -> None:
    assert naming(link()) == naming(Link.model_validate(OLD)) != naming(link({"since": "2026-03-01"}))


@pytest.mark.parametrize(
    ("period", "words"),
    [
        ('since = "2026-03-01"\npayload = 64', "payload: has no periods, since queries read all packets"),
        ('since = "2026-03-01"\ngap_tolerance = "1s"', "gap_tolerance: has no periods, since a pause may lie between"),
        ('since = "2026-03-01"\npolicy = "wait"', "policy: has no periods, since it changes no row"),
        ('since = "2026-03-01"\nzone = "UTC"', "unknown key 'zone'; did you mean 'timezone'?"),
        ('timezone = "UTC"', "periods.0.since: Field required; write for example periods = "),
        ('since = "2026-03-01"\ntimezone = "Berlin"', "'Berlin' is no time zone"),
        ('since = "2026-03-01"\ncaptures = "a-*.pcap"', "rotation: needs a pattern with the start of the file in it"),
        ('since = "2026-03-01"\n[[links.a.periods]]\nsince = "2026-02-01"', "periods: stand in the order of since"),
        (
            'since = "2026-03-01"\nskew = "2min"',
            'one is longer, 2min: write max_jump = "3min" in the section',
        ),
        ('since = "2026-03-01"\nresolution = "days"', "resolution: must be 'file', 'microseconds' or 'nanoseconds'"),
        ('since = "2026-03-01"\nseparator = ";"', 'separator: one character, only for a link with kind = "csv"'),
        (
            'since = "2026-03-01"\nskew = "2s"\n[links.a.group_skew]\ncolumn = "vlan_id"',
            "group_skew: not with another skew in periods",
        ),
    ],
)
def test_a_period_that_cannot_be_is_an_error(period: str, words: str, tmp_path: Path) -> None:
    text = f'[links.a]\ncaptures = "a-%Y%m%d%H.pcap"\nrotation = "1h"\n[[links.a.periods]]\n{period}\n'
    (tmp_path / "lowwater.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path)
    assert f"{tmp_path / 'lowwater.toml'}: links.a" in str(caught.value) and words in str(caught.value)


def test_periods_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable gives all periods of a link at once."""
    (tmp_path / "lowwater.toml").write_text('[links.a]\n[[links.a.periods]]\nsince = "2026-03-01"\n')
    monkeypatch.setenv("LOWWATER_LINKS__A__PERIODS", '[{since = "2026-04-01", timezone = "Asia/Tokyo"}]')
    (_, later) = load_config(tmp_path).links["a"].pieces()
    assert (format_instant(later.since), later.settings.timezone) == ("2026-04-01T00:00:00Z", "Asia/Tokyo")
    monkeypatch.delenv("LOWWATER_LINKS__A__PERIODS")
    monkeypatch.setenv("LOWWATER_LINKS__A__PERIODS__0__TIMEZONE", "Asia/Tokyo")
    with pytest.raises(
        ConfigError, match=r"PERIODS__0__TIMEZONE: links.a.periods is a list: give it as a whole"
    ) as caught:
        load_config(tmp_path)
    assert caught.value.hint == "write LOWWATER_LINKS__A__PERIODS='[...]'"


def capture(path: Path, *instants: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = [(parse_instant(at), udp("10.0.0.1", "10.0.0.2", 1, 2)) for at in instants]
    path.write_bytes(pcap_bytes(frames, nanoseconds=True))


def test_a_lake_takes_in_the_files_of_both_recorders(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    root.mkdir()
    (root / "lowwater.toml").write_text(
        f'[links.a]\ncaptures = "../old-%Y%m%d%H.pcap"\nrotation = "1h"\n[[links.a.periods]]\nsince = "{CHANGE}"\n'
        'captures = "../new/%Y%m%dT%H.pcap"\ntimezone = "Europe/Berlin"\n'
    )
    capture(tmp_path / "old-2026022823.pcap", "2026-02-28T23:10Z", "2026-02-28T23:50Z")
    capture(tmp_path / "old-2026030100.pcap", "2026-03-01T00:05Z", "2026-03-01T00:19Z")
    capture(tmp_path / "new" / "20260301T01.pcap", "2026-03-01T00:21Z", "2026-03-01T00:59Z")
    capture(tmp_path / "new" / "20260301T00.pcap", "2026-02-28T23:21Z")
    lake, config = open_lake(root), load_config(root)
    ingest(lake, "a", arrivals(lake, config)["a"].new, config)
    rows = read_captures(lake, ["a"], config)["a"]
    spans = [tuple(format_instant(at)[11:16] for at in (row.covers_from, row.covers_to)) for row in rows]
    assert spans == [("23:00", "00:00"), ("00:00", "00:20"), ("00:20", "01:00")]
    look(lake, config)
    (told, _) = unread_lines(lake, config, ["a"])
    assert "20260301T00.pcap" in told and "its name tells a time of another period of link 'a'" in told
    assert [path.name for path in files_of(config.links["a"], 0, parse_instant(CHANGE))] == [
        "old-2026022823.pcap",
        "old-2026030100.pcap",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("skew", "unread"), [("1s", ["a-2.pcap"]), ("10s", [])])
def test_captures_overlap_by_the_skew_of_their_time(skew: str, unread: list[str], tmp_path: Path) -> None:
    """Two pairs of files that overlap by 5 s each; the skew of the period is that of the second pair."""
    root, change = tmp_path / "lake", parse_instant(CHANGE)
    root.mkdir()
    text = f'[links.a]\nskew = "{skew}"\n[[links.a.periods]]\nsince = "{CHANGE}"\nskew = "{{}}"\n'
    for at, second in ((1, -600), (2, -545), (3, 600), (4, 655)):
        instants = [format_instant(change + (second + more) * SECOND) for more in (0, 20, 40, 60)]
        capture(tmp_path / f"a-{at}.pcap", *instants)
    lake, expected = open_lake(root), {"10s": [], "1s": ["a-4.pcap"]}
    for own, others in expected.items():
        (root / "lowwater.toml").write_text(text.format(own))
        config = load_config(root)
        if own == "10s":
            ingest(lake, "a", sorted(tmp_path.glob("a-*.pcap")), config, refusals={})
        found = read_captures(lake, ["a"], config)["a"]
        assert sorted(each.capture.path.rpartition("/")[2] for each in found.unread) == [*unread, *others]


@pytest.mark.slow
def test_files_are_read_by_their_period(tmp_path: Path) -> None:
    """From the change on the recorder writes nanoseconds and says microseconds; of the csv, it writes semicolons."""
    root = tmp_path / "lake"
    root.mkdir()
    (root / "log.schema").write_text(
        "PROTOCOL LOG { llong timestamp_ns get_csv_llong (increasing); uint n get_csv_uint; }\n"
    )
    (root / "lowwater.toml").write_text(
        '[links.a]\ncaptures = "../a-%Y%m%d%H.pcap"\nrotation = "1h"\n[[links.a.periods]]\n'
        'since = "2026-03-01"\nresolution = "nanoseconds"\n'
        '[links.b]\nkind = "csv"\nschemas = "log.schema"\ncaptures = "../old.csv"\n[[links.b.periods]]\n'
        'since = "2026-03-01"\nseparator = ";"\ncaptures = "../new.csv"\n'
    )
    config, lake, begin = load_config(root), open_lake(root), parse_instant("2026-02-28T23:00Z")
    frame = udp("10.0.0.1", "10.0.0.2", 1, 2)
    for name, later in (("a-2026022823", False), ("a-2026030100", True)):
        stamps = [begin + later * 3600 * SECOND + at * 50_000_000 for at in range(3)]
        data = pcap_bytes([(stamp, frame) for stamp in stamps], nanoseconds=later)
        (tmp_path / f"{name}.pcap").write_bytes(relabelled(data, 0xA1B2C3D4))
    for name, sign in (("old", ","), ("new", ";")):
        then = begin + (name == "new") * 3600 * SECOND
        (tmp_path / f"{name}.csv").write_text(
            f"timestamp_ns{sign}n\n" + "".join(f"{then + at}{sign}{at}\n" for at in range(3))
        )
    for link, version in (("a", DECODER_VERSION), ("b", READER_VERSION)):
        results = ingest(lake, link, arrivals(lake, config)[link].new, config)
        assert [(each.state, each.capture.packets) for each in results] == [("added", 3), ("added", 3)]
        captures = read_captures(lake, [link], config)[link]
        assert outdated(captures, config.link(link), version, 0, 1 << 62, record_options(config, link)) == []
        assert all(not each.malformed for each in captures)
    (_, after) = read_captures(lake, ["a"], config)["a"]
    assert ((after.largest or 0) - (after.first or 0), after.first) == (100_000_000, parse_instant("2026-03-01"))
    text = (root / "lowwater.toml").read_text()
    (root / "lowwater.toml").write_text(text.replace("2026-03-01", "2026-02-01"))
    config = load_config(root)
    captures = read_captures(lake, ["a"], config)["a"]
    (line,) = outdated(captures, config.link("a"), DECODER_VERSION, 0, 1 << 62)
    assert "a-2026022823.pcap was read by another setting resolution" in line
    # A link whose section is gone has no folders, and so no file of a period; its captures stay as they were read.
    (root / "lowwater.toml").write_text("".join(text.partition("[links.b]")[1:]))
    config = load_config(root)
    assert config.ended["a"].otherwise and not config.links["a"].read_by
    assert [row.first for row in read_captures(lake, ["a"], config)["a"]] == [row.first for row in captures]


def test_a_period_knows_its_files_by_their_names(tmp_path: Path) -> None:
    """What is read otherwise needs names that tell the period; `run`, which takes files under any name, refuses it."""
    text = '[links.a]\ncaptures = "{}"\n[[links.a.periods]]\nsince = "2026-03-01"\nresolution = "nanoseconds"\n'
    settings, words = tmp_path / "lowwater.toml", "resolution: a period knows its files by their names"
    settings.write_text(text.format("a-*.pcap"))
    with pytest.raises(ConfigError, match=words):
        load_config(tmp_path)
    for apart in (text.format("a-%Y%m%d.pcap"), text.format("a-*.pcap") + 'captures = "b-*.pcap"\n'):
        settings.write_text(apart)
        assert load_config(tmp_path).links["a"].read_by == ("resolution",)
    capture(tmp_path / "a-1.pcap", CHANGE)
    (tmp_path / "q.gsql").write_text("SELECT time, len FROM a.UDP")
    said = lowwater("run", tmp_path / "q.gsql", "--links", settings, "--out", tmp_path / "out")
    assert said.code == 1 and "links.a: resolution differs between its periods" in said.err
