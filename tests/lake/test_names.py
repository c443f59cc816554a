"""Patterns of drawn names: each name is of one group, and matches its pattern and no other group's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from lowwater.lake.files.names import group_names, name_links
from lowwater.lake.files.patterns import named_time, regex_of
from lowwater.lake.locks import _component
from lowwater.lake.tables import safe_name
from tests.breadth import examples

PARTS = (
    *(
        "a",
        "b",
        "eth0",
        "node",
        "1",
        "07",
        "12",
        "001",
        "00000012",
        "2026",
        "20260131",
        "260131",
        "2026-01-31",
        "2026-031",
    ),
    *("31.01.2026", "31Jan2026", "Sat", "13", "1315", "131500", "13:15:00", "0115PM", "1769865300", "1769865300250"),
    *("20260131T131500Z", "+0100", "CET", "123", "123456", "deadbeef01", "%", "[1]", "*", "ü"),
)
ENDS = ("", ".pcap", ".pcap1", ".pcap12", ".pcapng", ".log.gz", ".pcap.gz", ".json", ".1", ".2.gz")


@st.composite
def drawn_names(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5))
    gaps = draw(st.lists(st.sampled_from(("", "-", "_", ".", "/", " ", "T")), min_size=len(parts), max_size=len(parts)))
    text = "".join(part + gap for part, gap in zip(parts, gaps, strict=True))
    return text.strip("/. ").replace("//", "/") + draw(st.sampled_from(ENDS))


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(st.lists(drawn_names(), min_size=1, max_size=8, unique=True))
def test_a_name_matches_its_own_pattern(names: list[str]) -> None:
    groups = group_names(names)
    assert sorted(name for group in groups for name in group.names) == sorted(names)
    for group in groups:
        patterns = [regex_of(pattern) for pattern in group.patterns]
        for name in group.names:
            match = next((match for pattern in patterns if (match := pattern.fullmatch(name))), None)
            assert match is not None, (group.patterns, name)
            named_time(match, "Europe/Berlin")
    assert len({files.link for files in name_links(group_names(names))}) == len(groups)


SETS = [
    "flows",
    "my flows",
    "my_flows",
    "my-flows",
    "my+flows",
    "a@b",
    "a b of c",
    "a_b of c",
    ".",
    "..",
    " ",
    "\u00e9",
    "e\u0301",
    "x" * 240,
]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=9), max_size=9))
def test_two_names_of_query_sets_never_share_a_path(drawn: list[str]) -> None:
    """Nor do those that look like the path of another; a name of a DAG is its own path, as it always was."""
    names = list(dict.fromkeys([*SETS, *drawn]))
    names = list(dict.fromkeys([*names, *map(safe_name, names)]))
    for path in (safe_name, lambda name: _component(f"runs of {name}"), lambda name: _component(f"run of {name} 1-2")):
        components = {path(name) for name in names}
        assert len(components) == len(names)
        assert all(part not in (".", "..") and part.isascii() and "/" not in part for part in components)
    assert [safe_name(name) for name in ("flows", "sound-1.2", "a_b")] == ["flows", "sound-1.2", "a_b"]
