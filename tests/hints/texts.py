"""The rows of corrections.txt: query texts that `check` refuses with a hint, and the text that it asks for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from lowwater.limits import QUERY_BYTES
from tests.gsql.gsql_cases import GOLDEN, REFUSED, SYNTAX
from tests.plan import binding_cases
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
PREFIX = "SELECT getlpmid(srcIP, '{}') AS x FROM TCP"
ASSUMED = "SELECT bytes FROM flows ;; alone --schema p.gsql"
FOLDER = f"{PREFIX.format('tables/t')} ;; --links f.toml"
TOTAL = "SELECT tb, total(len) FROM TCP GROUP BY time/60 AS tb"
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


def _deep(open_: str, value: str, close: str = "") -> str:
    return open_ * 150 + value + close * 150


LONG = f"{'len + ' * 150}ttl"
RIGHT = {
    "gsql_refused_operator_view": f"{TOTAL} ;; --functions view.fun",
    "gsql_refused_fun": "SELECT f('a', len) FROM TCP ;; --functions f.fun",
    "gsql_refused_pred": f"{LEN} WHERE p[len, 'a'] ;; --functions p.fun",
    "gsql_refused_udaf": f"{TOTAL} ;; --functions udaf.fun",
    "gsql_deep_parentheses": f"Query x: SELECT {_deep('(', 'len', ')')} AS a FROM TCP;"
    f" Query y: SELECT {_deep('(', 'a', ')')} AS b FROM x",
    "gsql_long_chain": f"{LEN} WHERE ({LONG}) + ({LONG}) > 1",
    "gsql_deep_not": f"Query x: SELECT len, {_deep('NOT ', 'SYN')} AS a FROM TCP;"
    f" Query y: SELECT len FROM x WHERE {_deep('NOT ', 'a')}",
    "gsql_library_path": "SELECT len FROM lib/q",
    "gsql_quoted_digit": 'SELECT len FROM "a-1.b/x".TCP ;; --links other.toml',
    "gsql_too_many": ";\n".join(f"Query q{number}: SELECT len AS a{number} FROM TCP" for number in range(30)),
    "plan_library": "SELECT len FROM lib/q",
    "plan_function_unknown": "SELECT zzz(len) FROM TCP ;; --functions zzz.fun",
    "plan_property": "SELECT @town FROM main1.TCP ;; --links other.toml",
}
MORE = [
    ("large", f"Query a: {LEN};\n-- {'n' * QUERY_BYTES}\nQuery b: {LEN}", "split it into several files", LEN),
    ("in", f"{LEN} WHERE len IN [{', '.join(map(str, range(10_001)))}]", "keep the values in a watch list", WATCHED),
    ("assumed", "SELECT bytes FROM flows ;; alone", "give --schema FILE if it is a PROTOCOL", ASSUMED),
    ("folder", PREFIX.format("tables/t"), "folders = [...] under [files]", FOLDER),
    ("library", "SELECT len FROM lib/query", "a library is a folder beside the query file", "SELECT len FROM lib/q"),
    ("file", PREFIX.format("tables/t"), "put it beside", PREFIX.format("queries/t")),
]
GOLDENS: Mapping[str, str] = {
    **{f"gsql_refused_{name}": text for name, (text, _) in REFUSED.items()},
    **{f"gsql_{name}": text for name, text in SYNTAX.items()},
    **{f"plan_{name}": text for name, text in binding_cases.CASES.items()},
}


def _hint(name: str) -> str:
    lines = (GOLDEN / "errors" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return next((line.removeprefix("  hint: ") for line in lines if line.startswith("  hint: ")), "")


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")


def rows() -> list[tuple[str, str, str, str]]:
    """Of each text: its name, the text, its hint, and the text that is right; each golden with a hint is one."""
    lines = Path(__file__).with_name("corrections.txt").read_text(encoding="utf-8").splitlines()
    read = [line.split(" || ") for line in lines if line and not line.startswith("#")]
    right = {row[0]: _unescaped(row[1]) for row in read if len(row) == 2} | RIGHT
    assert set(right) == {name for name in GOLDENS if _hint(name)}, (
        "each golden with a hint has the text that it asks for"
    )
    more = [(row[0], _unescaped(row[1]), row[2], _unescaped(row[3])) for row in read if len(row) == 4]
    return [*((name, GOLDENS[name], _hint(name), text) for name, text in right.items()), *more, *MORE]


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
