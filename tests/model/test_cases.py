"""The model of files, coverage and states holds every case of cases.txt, and its laws at the end of each."""

from __future__ import annotations

import pytest

from tests.model.cases import OWN, Case, cases, failures, main

OF_PROJECT = cases(OWN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", OF_PROJECT, ids=lambda case: case.name)
def test_a_case_holds(case: Case) -> None:
    assert not [*failures(case)]


def test_names_are_unique() -> None:
    names = [case.name for case in OF_PROJECT]
    assert sorted(set(names)) == sorted(names)


# The reader itself: what does not hold, or is not understood, is said.

PLAIN = """
case plain
link a rotation=1h
saw 04:01 a/a_0300.pcap 03:00..03:59 60
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("state 03:00 done", "03:00 is missing"),
        ("state 04:00 missing", "04:00 is -"),
        ("publishes 03:00 60", "it has 0"),
        ("due nothing", "due is 03:00"),
        ("file a/a_0300.pcap is copy", "it is read"),
        ("capture a/a_0300.pcap covers 03:00..03:59", "it covers 03:00..04:00"),
        ("account a 03:00 sane 59", "sane 60"),
        ("defect gap a 03:00..04:00", "there is none"),
        ("order a other.pcap", "nobody can read"),
        ("saw 05:00 a/a_0400.pcap some packets", "nobody can read 'some packets'"),
        ("hums 03:00", "nobody can read 'hums 03:00'"),
    ],
)
def test_what_does_not_hold_is_said(line: str, told: str) -> None:
    (case,) = cases(PLAIN + line)
    assert told in next(failures(case))


def test_one_line_for_each_case_that_fails(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "more.txt"
    path.write_text(
        PLAIN + "state 03:00 missing\n" + PLAIN.replace("plain", "wrong") + "state 03:00 done\ndue nothing\n"
    )
    assert main([str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == [f"{path}: wrong: line 10: state 03:00 done: 03:00 is missing"]
