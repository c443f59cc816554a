"""Hints of functions, of what they declare, of watch lists, and of the skews and states of the catalog."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from lowwater.catalog.builtin import files
from lowwater.catalog.expr import Type
from lowwater.catalog.state_json import read_state, write_state
from lowwater.catalog.time import link_skews
from lowwater.catalog.user_functions.code import MAX_BYTES
from lowwater.config import load_config
from tests.hints.desk import Case, Desk, Site
from tests.replay.support import Said

PYTHON = """
class total:
    def initialize(self): return 0
    def iterate(self, state, value): return state + value
    def output(self, state): return state
    def destroy(self, state): pass

class half:
    def initialize(self): return 0

def twice(x): return 2 * x
def wrong(x): return "x"
seven = 7
"""
WATCH = """DEFINE { query_name 'w'; filename 'w.csv'; refresh_interval '60'; }
WATCHLIST FIELDS { IP address (key); UINT number; };
Query q: SELECT p.time, x.number WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.srcIP = x.address"""


def _ran(desk: Desk, query: str, *more: object) -> Said:
    """Runs a query over the capture."""
    file = desk.write("q.gsql", query)
    given = ("--capture", f"main1={desk.capture}", "--engine", "reference")
    return desk.run("run", file, *given, "--out", desk.folder / "out", *more)


def _running(query: str, *more: object) -> Callable[[Desk], Said]:
    return lambda desk: _ran(desk, query, *more)


def _reading(query: str, name: str, content: str | bytes | None) -> Callable[[Desk], Said]:
    """Runs a query that reads a file of this content; None makes a folder of the name."""

    def read(desk: Desk) -> Said:
        path = desk.folder / name
        if content is None:
            path.mkdir()
        else:
            if path.is_dir():
                path.rmdir()
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return _ran(desk, query)

    return read


def _reads(name: str, call: str, wrong: str | None, hint: str, right: str) -> Case:
    """A case of a table that a function reads from the file `t`."""
    query = f"SELECT {call} AS x FROM main1.TCP"
    return Case(name, _reading(query, "t", wrong), hint, _reading(query, "t", right))


def _declared(text: str | bytes, query: str = "", python: str = PYTHON) -> Callable[[Desk], Said]:
    """Checks, or runs, a query with declarations beside which lies mine.py."""

    def declared(desk: Desk) -> Said:
        desk.write("mine.py", python)
        file = desk.folder / "mine.fun"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        if query:
            return _ran(desk, query, "--functions", file)
        return desk.run("check", desk.query("SELECT time FROM TCP"), "--functions", file)

    return declared


def _mine(name: str, wrong: str, hint: str, right: str) -> Case:
    """A case of declarations behind MODULE 'mine.py'."""
    module = "MODULE 'mine.py';\n"
    return Case(name, _declared(module + wrong), hint, _declared(module + right))


def _watched(content: str | None, folder: bool = False) -> Callable[[Desk], Said]:
    """Runs a query with a watch list of this content; without any there is no file, or a folder."""

    def watched(desk: Desk) -> Said:
        path = desk.folder / "w.csv"
        if path.is_dir():
            path.rmdir()
        if folder:
            path.mkdir()
        elif content is not None:
            path.write_text(content)
        return _ran(desk, WATCH)

    return watched


def _skews(desk: Desk, *lines: str) -> None:
    desk.settle(ingest=False)
    for line in lines:
        desk.settings("[links.main1]", f"[links.main1]\n{line}")
    link_skews(load_config(desk.lake), "main1")


def _grouped(column: str, value: str, *lines: str) -> Callable[[Desk], None]:
    return lambda desk: _skews(desk, *lines, f'group_skew = {{ column = "{column}", values = {{ "{value}" = "2s" }} }}')


PREFIXES = "getlpmid(srcIP, 't')"
NAMES = "int_to_string_map(srcPort, 't')"
RUNNING = "SELECT tb, running_sum(len*{}) AS r FROM main1.TCP GROUP BY time/60 AS tb CLOSING_WHEN count(*) = 0"
TOTAL = "SELECT tb, total(len) AS n FROM main1.TCP GROUP BY time/60 AS tb"
SPLIT = "int UDAF [SUBAGGR low, SUPERAGGR total] whole int (int);\n"


def _prefix_of(path: str) -> Callable[[Desk], Said]:
    """Runs a query that reads prefixes from a file that does not lie there, or does."""

    def prefix_of(desk: Desk) -> Said:
        desk.write("tables/t", "10.0.0.0/8 7\n")
        return _ran(desk, f"SELECT getlpmid(srcIP, '{path}') AS x FROM main1.TCP")

    return prefix_of


def _too_large(query: str, name: str, right: str = "") -> Callable[[Desk], Said]:
    """Runs a query beside which lies a file that is too large, or one of right content."""

    def too_large(desk: Desk) -> Said:
        desk.write(name, right)
        if not right:
            with (desk.folder / name).open("wb") as file:
                file.truncate(files.MAX_BYTES + 1)  # takes no room
        return _ran(desk, query)

    return too_large


def _module(name: str) -> Callable[[Desk], Said]:
    """Checks with declarations in a folder of their own, beside which lies mine.py."""

    def module(desk: Desk) -> Said:
        desk.write("functions/mine.py", PYTHON)
        file = desk.write("functions/mine.fun", f"MODULE '{name}'; int FUN twice(int);")
        return desk.run("check", desk.query("SELECT time FROM TCP"), "--functions", file)

    return module


def _declarations_at(name: str) -> Callable[[Desk], Said]:
    def declared(desk: Desk) -> Said:
        desk.settle(ingest=False)
        desk.write("lake/mine.fun", "-- nothing")
        text = (desk.lake / "lowwater.toml").read_text()
        (desk.lake / "lowwater.toml").write_text(
            text.replace("[query_sets.flows]", f'[query_sets.flows]\nfunctions = ["{name}"]')
        )
        return desk.run("plan", "--lake", desk.lake)

    return declared


def _padded(*sizes: int) -> Callable[[Desk], Said]:
    """Checks with files of declarations of these sizes."""

    def padded(desk: Desk) -> Said:
        given: list[object] = []
        for number, size in enumerate(sizes):
            given += ["--functions", desk.write(f"{number}.fun", "-" * size)]
        return desk.run("check", desk.query("SELECT time FROM TCP"), *given)

    return padded


def _modules(*sizes: int) -> Callable[[Desk], Said]:
    """Checks with Python files of these sizes, each with a function."""

    def modules(desk: Desk) -> Said:
        text = ""
        for number, size in enumerate(sizes):
            desk.write(f"{number}.py", f"def f{number}(x): return x\n".ljust(size, "#"))
            text += f"MODULE '{number}.py'; int FUN f{number}(int);\n"
        return desk.run("check", desk.query("SELECT time FROM TCP"), "--functions", desk.write("mine.fun", text))

    return modules


def _alone(desk: Desk) -> Said:
    """Runs the module with Python alone, which shows where it fails."""
    done = subprocess.run([sys.executable, desk.folder / "mine.py"], capture_output=True, text=True)
    assert done.returncode and "line 2" in done.stderr, done
    return _declared("MODULE 'mine.py'; int FUN twice(int);")(desk)


def _state(value: Any) -> Callable[[Desk], None]:
    """Writes a state and reads it again."""

    def kept(desk: Desk) -> None:
        assert read_state(write_state(value)) == value

    return kept


CASES = [
    _reads("a prefix", PREFIXES, "10.0.0.0 8 7\n", "write `10.0.0.0/8 7`", "10.0.0.0/8 7\n"),
    _reads("a prefix with bits behind it", PREFIXES, "10.0.0.1/8 7\n", "prefix, length and", "10.0.0.0/8 7\n"),
    _reads("a prefix twice", PREFIXES, "10.0.0.0/8 7\n10.0.0.0/8 8\n", "leave one of the lines", "10.0.0.0/8 7\n"),
    _reads("a number without a string", NAMES, "https 443\n", "write `443,https`", "443,https\n"),
    _reads("a number with two strings", NAMES, "443,https\n443,tls\n", "leave one of the lines", "443,https\n"),
    _reads("a table that is a folder", PREFIXES, None, "name a text file", "10.0.0.0/8 7\n"),
    Case(
        "a table elsewhere",
        _prefix_of("t"),
        "relative to the folder in which Lowwater runs",
        _prefix_of("tables/t"),
    ),
    Case(
        "a table that is too large",
        _too_large(f"SELECT {PREFIXES} AS x FROM main1.TCP", "t"),
        "leave lines out",
        _too_large(f"SELECT {PREFIXES} AS x FROM main1.TCP", "t", "10.0.0.0/8 7\n"),
    ),
    Case(
        "a running sum",
        _running(RUNNING.format(10**17)),
        "scale the argument down",
        _running(RUNNING.format(10**3)),
    ),
    # -- declarations
    _mine("an unknown type", "timeval FUN twice(int);", "there are: ushort, uint, int", "llong FUN twice(int);"),
    _mine(
        "a name that is not in the file",
        "int FUN twyce(int);",
        "declare the name that it has",
        "int FUN twice(int);",
    ),
    _mine("a number for a function", "int FUN seven(int);", "write `def seven(...):`", "int FUN twice(int);"),
    _mine("a function for a class", "int UDAF twice int (int);", "write `class twice:`", "int UDAF total int (int);"),
    _mine(
        "half an aggregate",
        "int UDAF half int (int);",
        "write iterate, output, destroy in it",
        "int UDAF total int (int);",
    ),
    _mine(
        "one half of a split",
        "int UDAF [SUBAGGR total] total int (int);",
        "both, or neither",
        "int UDAF total int (int);",
    ),
    Case(
        "a function of another type",
        _declared("MODULE 'mine.py'; int FUN wrong(int);", "SELECT wrong(len) AS n FROM main1.TCP"),
        "it is to give int or None",
        _declared("MODULE 'mine.py'; string FUN wrong(int);", "SELECT wrong(len) AS n FROM main1.TCP"),
    ),
    Case(
        "a module that fails",
        _declared("MODULE 'mine.py'; int FUN twice(int);", python="def twice(x): return 2 * x\n1 / 0\n"),
        "run the file with Python alone",
        _alone,
    ),
    Case(
        "declarations in Latin 1",
        _declared("-- gr\xf6\xdfe\n".encode("latin-1")),
        "iconv -f latin1 -t utf-8 OLD > NEW",
        _declared("-- gr\xf6\xdfe\n"),
    ),
    Case(
        "a module elsewhere",
        _module("functions/mine.py"),
        "relative to the file of the declarations",
        _module("mine.py"),
    ),
    Case("a large module", _modules(MAX_BYTES + 1), "split it", _modules(MAX_BYTES - 9, 99)),
    Case("large declarations", _padded(1_000_001), "split the file", _padded(500_000, 500_001)),
    Case("declarations elsewhere", _declarations_at("none.fun"), "check the path", _declarations_at("mine.fun")),
    # -- watch lists
    Case("a line of a value", _watched("10.0.0.1\n"), "write `address,number`", _watched("10.0.0.1,5\n")),
    Case("a line that is no address", _watched("10.0.0.256,5\n"), "as 10.0.0.1", _watched("10.0.0.25,5\n")),
    Case("a watch list of a large value", _watched(f"{'1' * 200_000},5"), "divide", _watched("10.0.0.1,5")),
    Case("a watch list that is a folder", _watched(None, folder=True), "relative to the folder in which", _watched("")),
    Case(
        "a watch list that is too large",
        _too_large(WATCH, "w.csv"),
        "leave lines out",
        _too_large(WATCH, "w.csv", "10.0.0.1,5\n"),
    ),
    # -- skews
    Case("a skew of no column", _grouped("port", "80"), "name one of docs/packets.md", _grouped("destPort", "80")),
    Case("a skew of no address", _grouped("srcIP", "10"), "write one as '10.0.0.1'", _grouped("srcIP", "10.0.0.1")),
    Case(
        "a skew and shed",
        _grouped("vlan_id", "7", "shed = 5", "sampling = true"),
        "leave out shed or group_skew",
        _grouped("vlan_id", "7"),
    ),
    # -- states
    Case(
        "a state of a class",
        _state((1, object())),
        "keep numbers, strings, bytes, None",
        _state((1, 0.5, "a", b"b", None, [2], {3}, {"n": (4,)})),
    ),
    Case("a state of an enumeration", _state(Type.INT), "keep plain values", _state(str(Type.INT.value))),
]

LEFT: dict[Site, str] = {}
"""Where hints are made that no test can follow, each with the reason."""
