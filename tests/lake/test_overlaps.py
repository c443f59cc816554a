"""Captures of one time (SEMANTICS T1): which of them is read depends on what they are, not on when they came; and a
file that is the beginning of another one is no capture of its own."""

from __future__ import annotations

import gzip
import itertools
import os
import random
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings as settings_of, strategies as st

from lowwater.config import Config, load_config
from lowwater.errors import ConfigError, OverlapError
from lowwater.instants import HOUR, format_instant
from lowwater.lake.ingestion.arrivals import arrivals
from lowwater.lake.ingestion.folders import look, set_aside, undo
from lowwater.lake.ingestion.ingest import ingest
from lowwater.lake.layout import Lake, open_lake
from lowwater.lake.ledgers.captures import read_captures
from lowwater.lake.ledgers.files import read_seen, told_files, unread_lines
from lowwater.lake.ledgers.states import READ
from lowwater.replay.schedule.due import statuses
from tests.breadth import examples
from tests.lake.support import BASE, at, capture as written, stamps
from tests.replay.support import lowwater

QUERY = "DEFINE { query_name n; } SELECT tb, count(*) AS c FROM a.ETH GROUP BY time/60 AS tb\n"
OLD = BASE - 2000 * HOUR
SKEW = 'skew = "1s"'


def world(root: Path, lines: str = SKEW) -> Lake:
    root.mkdir(parents=True)
    (root / "n.gsql").write_text(QUERY)
    text = f'[query_sets.n]\nfiles = ["n.gsql"]\n[links.a]\ncaptures = "{root.parent}/in/*.pcap*"\n{lines}\n'
    (root / "lowwater.toml").write_text(text)
    return open_lake(root)


def capture(path: Path, seconds: Sequence[float]) -> Path:
    """A capture that was written long ago."""
    return aged(written(path, seconds))


def aged(path: Path) -> Path:
    os.utime(path, ns=(OLD, OLD))
    return path


def every(begin: float, end: float, step: float = 10) -> list[float]:
    return [begin + step * n for n in range(int((end - begin) / step))]


def take(lake: Lake, paths: Sequence[Path] | None = None) -> dict[str, str]:
    """Ingests files, or what `lowwater ingest` would: name -> what became of it."""
    config, found = load_config(lake.root), dict[str, str]()
    said = ("me" if paths else "", "")
    paths = arrivals(lake, config)["a"].new if paths is None else paths
    refused: dict[Path, Exception] = {}
    done = ingest(lake, "a", paths, config, refusals=refused, said=said)  # type: ignore[arg-type]
    look(lake, config)
    found |= {each.path.name: each.state for each in done}
    return found | {path.name: type(error).__name__ for path, error in refused.items()}


def view(lake: Lake, config: Config | None = None) -> tuple[list[tuple[str, int, int]], list[tuple[str, str]]]:
    """What is read, with its coverage, and what is not, with that for which it is not."""
    of_link = read_captures(lake, ["a"], config)["a"]
    read = [(Path(row.path).name, row.covers_from, row.covers_to) for row in of_link]
    return read, sorted((Path(each.capture.path).name, Path(each.other.path).name) for each in of_link.unread)


def words(lake: Lake) -> dict[str, str]:
    """Hour of the day -> the state that `status` shows."""
    return {format_instant(row.start)[11:16]: row.shown for row in statuses(lake.root, lake.root)}


def hours(folder: Path) -> list[Path]:
    return [capture(folder / "a_1.pcap", every(0, 3600)), capture(folder / "a_2.pcap", every(3600, 7200))]


def others(folder: Path) -> list[Path]:
    """A second recorder of 40 minutes, and a stray file that begins in hour 0 and reaches into hour 1."""
    return [capture(folder / "b.pcap", every(1203, 3600)), capture(folder / "c.pcap", every(3500, 5000, 7))]


@pytest.mark.slow
def test_the_order_of_ingest_decides_nothing(tmp_path: Path) -> None:
    given_files, views = [*hours(tmp_path / "in"), *others(tmp_path / "in")], []
    orders = [*itertools.permutations(given_files)]
    for number, order in enumerate(random.Random(1).sample(orders, 8)):
        lake = world(tmp_path / f"world{number}" / "lake")
        cut = number % 4
        for portion in (order[:cut], order[cut:]):
            take(lake, portion)
        views.append(view(lake))
    assert all(each == views[0] for each in views)
    read, unread = views[0]
    assert [name for name, *_ in read] == ["a_1.pcap", "a_2.pcap"]
    assert unread == [("b.pcap", "a_1.pcap"), ("c.pcap", "a_1.pcap")]


@pytest.mark.slow
def test_what_is_not_read_is_told_and_keeps_its_hours_from_being_done(tmp_path: Path) -> None:
    lake = world(
        tmp_path / "lake",
        f'{SKEW}\nsince = "{format_instant(at(0))}"\nuntil = "{format_instant(at(7200))}"\ngap_tolerance = "11s"',
    )
    assert take(lake, hours(tmp_path / "in")) == {"a_1.pcap": "added", "a_2.pcap": "added"}
    assert lowwater("backfill", "--lake", str(lake.root)).code == 0
    assert words(lake) == {"08:00": "done", "09:00": "done"}
    others(tmp_path / "in")
    assert take(lake) == {"b.pcap": "OverlapError", "c.pcap": "OverlapError"}
    assert take(lake) == {}, "nobody is offered it again"
    assert words(lake) == {"08:00": "incomplete", "09:00": "incomplete"}
    (line, *_) = unread_lines(lake, load_config(lake.root))
    assert "b.pcap" in line and "its records overlap those of a_1.pcap by 39 min 40 s, more than the skew" in line
    assert len(stamps(lake, load_config(lake.root))) == 720, "no row has changed"
    # the person chooses: one recorder
    text = (lake.root / "lowwater.toml").read_text()
    (lake.root / "lowwater.toml").write_text(text.replace(SKEW, 'skew = "1h"'))
    assert view(lake)[1] == [] and len(stamps(lake, load_config(lake.root))) == 720 + 239 + 214
    (lake.root / "lowwater.toml").write_text(text)
    # or one of two recorders
    config = load_config(lake.root)
    with pytest.raises(ConfigError, match="name it without a pattern"):
        set_aside(lake, config, [str(tmp_path / "in" / "a_*.pcap")], "no", "me")
    set_aside(lake, config, ["b.pcap", "c.pcap"], "the other recorder", "me")
    assert words(lake) == {"08:00": "done", "09:00": "done"} and view(lake)[1] == []
    undo(lake, config, ["b.pcap"], "me")
    assert words(lake) == {"08:00": "incomplete", "09:00": "done"}
    set_aside(lake, config, ["a_1.pcap"], "the other recorder", "me")
    assert [name for name, *_ in view(lake)[0]] == ["b.pcap", "a_2.pcap"] and take(lake) == {}
    undo(lake, config, ["a_1.pcap"], "me")
    assert words(lake) == {"08:00": "incomplete", "09:00": "done"} and take(lake) == {}


@pytest.mark.slow
@pytest.mark.parametrize("whole_first", [True, False])
@pytest.mark.parametrize("packed", ["", "part", "whole"])
def test_a_part_of_a_capture_is_no_capture_of_its_own(tmp_path: Path, whole_first: bool, packed: str) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    whole, part = capture(folder / "whole.pcap", every(0, 3600)), capture(folder / "part.pcap", every(0, 1800))
    whole, part = (_packed(path) if path.stem == packed else path for path in (whole, part))
    for path in (whole, part) if whole_first else (part, whole):
        take(lake, [path])
    assert view(lake)[0] == [(whole.name, at(0), at(3590))] and not view(lake)[1]
    assert len(stamps(lake)) == 360 and take(lake) == {}, "it is offered to nobody again"
    assert {row.state for row in read_seen(lake).values()} == {READ} and not unread_lines(lake, load_config(lake.root))
    set_aside(lake, load_config(lake.root), [whole.name], "cut off by us", "me")
    assert take(lake) == {} and view(lake)[0] == [(part.name, at(0), at(1790))]
    undo(lake, load_config(lake.root), [whole.name], "me")
    assert take(lake) == {} and view(lake)[0] == [(whole.name, at(0), at(3590))] and not view(lake)[1]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_copy_of_a_file_that_is_set_aside_is_read_for_it(tmp_path: Path, packed: bool) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    whole = capture(folder / "whole.pcap", every(0, 3600))
    take(lake)
    copy = Path(shutil.copy(whole, folder / "copy.pcap"))
    copy = _packed(copy) if packed else aged(copy)
    assert take(lake) == {copy.name: "known"}
    set_aside(lake, load_config(lake.root), [whole.name], "the copy counts", "me")
    assert take(lake) == {}, "its records are there"
    assert [name for name, *_ in view(lake)[0]] == [copy.name] and not view(lake)[1]
    assert not [row for row in told_files(lake).values() if row.unread]
    # and one that is set aside, and then named, is read again
    set_aside(lake, load_config(lake.root), [copy.name], "neither", "me")
    assert view(lake) == ([], [])
    assert take(lake, [copy]) == {copy.name: "known"}
    assert [name for name, *_ in view(lake)[0]] == [copy.name] and len(stamps(lake)) == 360
    assert not [row for row in told_files(lake).values() if row.unread]


@pytest.mark.slow
def test_a_part_of_several_files_stays_known(tmp_path: Path) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    for name, end in (("a_1", 1200), ("a_2", 1800), ("a_3", 3600)):
        capture(folder / f"{name}.pcap", every(0, end))
    take(lake)
    assert view(lake) == ([("a_3.pcap", at(0), at(3590))], []) and take(lake) == {}
    assert {row.state for row in read_seen(lake).values()} == {READ}


@pytest.mark.slow
def test_what_is_set_aside_is_not_read_again_because_its_name_is_used_again(tmp_path: Path) -> None:
    lake, path = world(tmp_path / "lake"), tmp_path / "in" / "trace.pcap"
    for begin, end in ((0, 600), (7200, 7900)):
        capture(path, every(begin, end))
        assert take(lake) == {path.name: "added"}
        if not begin:
            set_aside(lake, load_config(lake.root), [path.name], "a test", "me")
            assert view(lake) == ([], [])
    assert view(lake) == ([(path.name, at(7200), at(7890))], [])


def _packed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.gz")
    with gzip.open(target, "wb") as file:
        file.write(path.read_bytes())
    path.unlink()
    return aged(target)


@pytest.mark.slow
@pytest.mark.parametrize("whole_first", [True, False])
def test_a_part_with_an_end_that_is_no_record_is_no_capture_of_its_own(tmp_path: Path, whole_first: bool) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    whole, part = capture(folder / "whole.pcap", every(0, 3600)), capture(folder / "part.pcap", every(0, 1800))
    part.write_bytes(part.read_bytes() + bytes(4096))  # room that its recorder took before it wrote
    for path in (whole, part) if whole_first else (part, whole):
        take(lake, [aged(path)])
    assert view(lake) == ([(whole.name, at(0), at(3590))], []) and take(lake) == {}


@pytest.mark.slow
def test_files_of_one_time_are_set_aside_by_a_pattern_of_those_that_are_not_read(tmp_path: Path) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    hours(folder)
    others(folder)
    take(lake)
    set_aside(lake, load_config(lake.root), ["*.pcap"], "the other recorder", "me")
    assert [name for name, *_ in view(lake)[0]] == ["a_1.pcap", "a_2.pcap"] and not view(lake)[1]


@pytest.mark.slow
def test_a_name_that_two_links_have_is_that_of_the_file_that_is_not_read(tmp_path: Path) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    with (lake.root / "lowwater.toml").open("a") as file:
        file.write(f'[links.b]\ncaptures = "{tmp_path}/other/*.pcap"\n')
    hours(folder)
    broken = capture(tmp_path / "other" / "a_1.pcap", [0])
    broken.write_bytes(b"no capture" * 99)
    assert lowwater("ingest", "--lake", lake.root).code == 1
    config = load_config(lake.root)
    set_aside(lake, config, ["a_1.pcap"], "broken", "me")
    assert [name for name, *_ in view(lake)[0]] == ["a_1.pcap", "a_2.pcap"], "that which is read is read"
    assert not [row for row in told_files(lake).values() if row.unread]
    undo(lake, config, ["a_1.pcap"], "me")
    capture(broken, every(0, 60))
    assert lowwater("ingest", "--lake", lake.root).code == 0
    with pytest.raises(ConfigError, match="several files of this name are read, of a, b"):
        set_aside(lake, config, ["a_1.pcap"], "which?", "me")


@pytest.mark.slow
def test_a_part_is_known_though_the_whole_file_is_gone(tmp_path: Path) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    whole = capture(folder / "whole.pcap", every(0, 3600))
    take(lake, [whole])
    whole.unlink()
    other, part = capture(folder / "other.pcap", every(0, 1800, 20)), capture(folder / "part.pcap", every(0, 1800))
    assert take(lake, [part]) == {"part.pcap": "known"}
    take(lake, [other])
    assert view(lake)[1] == [("whole.pcap", "other.pcap")], "it begins with the same packet only: another recorder"


@pytest.mark.slow
def test_a_file_that_has_less_under_its_name_is_its_new_version(tmp_path: Path) -> None:
    lake, folder = world(tmp_path / "lake"), tmp_path / "in"
    take(lake, [capture(folder / "a.pcap", every(0, 3600))])
    assert take(lake, [capture(folder / "a.pcap", every(0, 1800))]) == {"a.pcap": "replaced"}
    assert len(stamps(lake)) == 180


@pytest.mark.slow
@pytest.mark.hypothesis
def test_drawn_files_in_any_order_and_portions_give_one_view(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Files of any time and length, parts of others among them; ingested in two orders, portions and skews."""
    spans = st.tuples(st.integers(0, 40), st.integers(1, 12), st.sampled_from([1, 2]))

    @settings_of(max_examples=examples(12))
    @given(
        st.lists(spans, min_size=2, max_size=5, unique=True),
        st.lists(st.integers(0, 4), max_size=2),
        st.randoms(use_true_random=False),
        st.sampled_from(["1s", "2min", "10min"]),
    )
    def drawn(drawn: list[tuple[int, int, int]], cuts: Iterable[int], chance: random.Random, skew: str) -> None:
        top = tmp_path_factory.mktemp("drawn")
        paths = [
            capture(top / "in" / f"{number}.pcap", [60 * begin + 30 * step * n for n in range(length)])
            for number, (begin, length, step) in enumerate(drawn)
        ]
        for number in cuts:  # a part of one
            if number < len(drawn) and drawn[number][1] > 2:
                begin, length, step = drawn[number]
                part = [60 * begin + 30 * step * n for n in range(length // 2)]
                paths.append(capture(top / "in" / f"part{number}.pcap", part))
        views = []
        for attempt in range(2):
            lake = world(top / f"world{attempt}" / "lake", f'skew = "{skew}"')
            order = paths if not attempt else chance.sample(paths, len(paths))
            cut = chance.randint(0, len(order))
            for portion in (order[:cut], order[cut:]):
                with suppress(OverlapError):
                    take(lake, portion)
            # a look with nothing new, and everything again, change nothing
            before = view(lake)
            take(lake, order)
            assert view(lake) == before
            views.append(before)
        assert views[0] == views[1]
        shutil.rmtree(top)

    drawn()
