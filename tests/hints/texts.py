"""Query texts that `check` refuses with a hint, and the text that the hint asks for, which it takes."""

from __future__ import annotations

import shlex
from pathlib import Path

from lowwater.limits import QUERY_BYTES
from tests.refusals import refusals
from tests.replay.support import Said, lowwater

LINKS = """
[links.control]
payload = "all"
sampling = true
[links.main1]
payload = "all"
sampling = true
properties = { site = "berlin" }
[links.main2]
payload = "all"
sampling = true
properties = { site = "oslo" }
[links.web]
kind = "csv"
[sets]
backbone = ["main1", "main2"]
"""
LEN = "SELECT len FROM TCP"
FILES = {
    "mine.py": """
class total:
    def initialize(self): return 0
    def iterate(self, state, value): return state + value
    def output(self, state): return state
    def destroy(self, state): pass
def f(text, number): return number
def p(number, text): return True
""",
    "other.toml": '[links."a-1.b/x"]\n[links.main1.properties]\ntown = "Berlin"\n',
    "f.toml": f'{LINKS}\n[files]\nfolders = ["tables"]\n',
    "p.gsql": "PROTOCOL flows { uint bytes get_len; }\n",
    "view.fun": "MODULE 'mine.py'; int UDAF total int (int);",
    "f.fun": "MODULE 'mine.py'; uint FUN [LFTA_LEGAL, COST LOW] f(string, uint);",
    "p.fun": "MODULE 'mine.py'; PRED [LFTA_LEGAL] p[uint, string];",
    "udaf.fun": "MODULE 'mine.py'; int UDAF total fstring8 (uint);",
    "zzz.fun": "uint FUN zzz(uint);\n",
    "queries/qlib/lib/q.gsql": LEN,
    "queries/t": "10.0.0.0/8 7\n",
    "tables/t": "10.0.0.0/8 7\n",
}
WATCHED = (
    "DEFINE { query_name 'w'; filename 'queries/w.csv'; refresh_interval '60'; } WATCHLIST FIELDS { IP a (key); };"
    " Query q: SELECT p.len WATCHLIST_JOIN FROM main1.TCP p, w x WHERE p.srcIP = x.a"
)


MORE = [
    ("large", f"Query a: {LEN};\n-- {'n' * QUERY_BYTES}\nQuery b: {LEN}", "split it into several files", LEN),
    ("in", f"{LEN} WHERE len IN [{', '.join(map(str, range(10_001)))}]", "keep the values in a watch list", WATCHED),
]
"""Texts that are too long to be written out."""


def rows() -> list[tuple[str, str, str, str]]:
    """Of each text with a hint: its name, the text, its hint, and the text that is right."""
    found = [(each.name, each.text, each.hint, each.right) for each in refusals().values() if each.hint]
    assert not [name for name, _, _, right in found if not right], "each hint has the text that it asks for"
    return [*found, *MORE]


def check(text: str) -> Said:
    """What `check` says of a text and its options, in a folder of `settle`."""
    text, _, options = text.partition(" ;; ")
    Path("queries/q.gsql").write_text(text, encoding="utf-8")
    links = () if "--links" in options or "alone" in options else ("--links", "links.toml")
    return lowwater("check", "queries/q.gsql", *links, *shlex.split(options.removeprefix("alone")))


def settle(folder: Path) -> None:
    """The files that stand beside the texts."""
    for name, text in ({"links.toml": LINKS} | FILES).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
