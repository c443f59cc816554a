"""Texts for the fuzzer: mutated goldens, sentences of the grammar, long repetitions and noise."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from random import Random

from lark.grammar import Rule
from lark.lexer import PatternStr

from lowwater.gsql.parser import _lark
from lowwater.gsql.words import JOINS, KEYWORDS, PAIRS, SQL, UPPER_ONLY, spellings
from tests.gsql.gsql_cases import QUERIES
from tests.refusals import refusals

SEEDS = [path.read_text(encoding="utf-8") for path in QUERIES]
SEEDS += [each.text for each in refusals("parser_").values() if len(each.text) < 1000]
_PLAIN = "a b tb time R S srcIP main1 TCP Or_aggr count sum max query sElect"
_SOFT = "left end range slide wa union join case null is like between distinct when then else full cross over limit"
NAMES = [*_PLAIN.split(), '"from"', '"end"', '"case"', *_SOFT.split(), "closing", "cleaning", "filter", '"a b"', '""']
_WRONG = {*_SOFT.split(), '"a b"', '""', "9223372036854775808", "1e999", "IP_VAL '1.2.3.256'", "HEX'fg'"}
SAMPLES = {
    "NAME": NAMES,
    "STRING": ["'x'", "''", "'it''s'", "'--'", "'a;b'", "'é\\'"],
    "INT": ["0", "1", "60", "10UL", "7ULL", "9223372036854775807", "9223372036854775808"],
    "FLOAT": ["1.5", ".5", "1.", "1e3", "2.5E-300", "1e999"],
    "IP": ["IP_VAL'10.0.0.1'", "IP_VAL '1.2.3.256'"],
    "IPV6": ["IPV6_VAL'::1'", "IPv6_VAL'1:2:3:4:5:6:7:8'"],
    "HEX": ["HEX'ff'", "LHEX'7fffffffffffffff'", "HEX'fg'"],
    "SUPERAGGREGATE": ["sum$", "count_distinct$", "from$"],
    "PARAMETER": ["$window", "$select"],
    "DEFINED": ["#foo", "#from"],
    "PROPERTY": ["@Host", "@by"],
    "SHIFT": ["<<", ">>"],
    "COMPARISON": ["<>", "!=", "<=", ">=", "<", ">"],
    "QUERY": ["Query", "QUERY", "query"],
    "SQL_JOIN": ["JOIN", "inner join", "Left Outer Join", "RIGHT JOIN", "full outer join"],
    "GROUPING": ["CUBE", "Rollup"],
    "GROUPING_SETS": ["GROUPING_SETS", "Grouping Sets"],
    "JOIN": [spelt for word in JOINS for spelt in spellings(word)],
    "_WINDOW": ["["],
    "UNION": ["UNION", "union", "UNION ALL"],
    "WA": ["WA", "wattr"],
    "_CLEANING_BY": ["CLEANING_BY", "Cleaning By"],
    "_CLOSING_WHEN": ["closing_when", "CLOSING WHEN"],
}
PIECES = [*NAMES, *KEYWORDS, *UPPER_ONLY, *SQL, *(" ".join(pair) for pair in PAIRS)]
PIECES += [text for texts in SAMPLES.values() for text in texts]
PIECES += [*"()[]{},;:.*/+-~!=|&%^?$@#'\"`é\\", "--", "//", "/*", "==", "&&", "TIMEVAL'1'", "FFROM", "SELET"]
PIECES += ["\n", "\t", "\r", "\r\n", "\x00", "\x0b", "\u00a0", "\u2028", "\ufeff", "\ud800", "\U0001f600"]
_WORDS = re.compile(r"\s+|\w+|'[^'\n]*'|.", re.DOTALL)
_MOST = 50_000
_DEPTH = 30
_REPEAT_OF = 400


def text(random: Random) -> str:
    """One text; mostly short, now and then a long repetition."""
    if random.randrange(_REPEAT_OF) == 0:
        return repetition(random)
    makers: tuple[Callable[[Random], str], ...] = (mutated_words, mutated_bytes, sentence, sentence, mutant, soup)
    return random.choice(makers)(random)


def mutated_words(random: Random, text: str = "") -> str:
    """A golden with words cut, doubled, swapped, replaced or taken from another golden."""
    words = _WORDS.findall(text or _seed(random))
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(words) + 1)
        end = min(len(words), at + random.randint(0, 3))
        choice = random.randrange(6)
        if choice == 0:
            words[at:end] = []
        elif choice == 1:
            words[at:at] = words[at:end] * random.randint(1, 5)
        elif choice == 2:
            words[at:end] = words[at:end][::-1]
        elif choice == 3:
            other = _WORDS.findall(_seed(random))
            start = random.randrange(len(other) + 1)
            words[at:end] = other[start : start + random.randint(1, 12)]
        else:
            words[at : end if choice == 4 else at] = [random.choice(PIECES)]
    return "".join(words)


def mutated_bytes(random: Random) -> str:
    """A golden with bytes changed, cut or put in, read as UTF-8 with surrogates for what is none."""
    data = bytearray(_seed(random).encode())
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.randint(0, 4))
        noise = random.randbytes(random.randint(0, 3))
        data[at : random.choice((at, end))] = noise if random.randrange(3) else data[at:end]
    return data.decode("utf-8", random.choice(("replace", "surrogateescape")))


def mutant(random: Random) -> str:
    """A sentence of the grammar with words mutated."""
    return mutated_words(random, sentence(random))


def soup(random: Random) -> str:
    """Words of the language in any order, or any characters."""
    if random.randrange(4) == 0:
        return "".join(chr(random.randrange(0x110000 if random.randrange(4) == 0 else 0x180)) for _ in range(40))
    return random.choice(("", " ", "\n")).join(random.choices(PIECES, k=random.randint(0, 30)))


def repetition(random: Random) -> str:
    """A few words many times over, after the beginning of a query."""
    unit = random.choice(("", " ")).join(random.choices(PIECES, k=random.randint(1, 4))) or " "
    head = random.choice(
        ("", "SELECT ", "SELECT a FROM R", "SELECT a FROM R WHERE ", "DEFINE {", "SELECT a FROM R [RANGE 5,")
    )
    return head + unit * (random.randint(100, _MOST) // len(unit.encode("utf-8", "surrogatepass")) + 1)


def sentence(random: Random) -> str:
    """A sentence of the grammar; what the tree's maker checks (names, counts of sources) may be wrong in it."""
    words: list[str] = []
    stack: list[tuple[str, bool, int]] = [(random.choice(("start", "statement")), False, 0)]
    rules, depths = _rules()
    likely = random.randrange(4) > 0
    while stack:
        symbol, is_term, depth = stack.pop()
        if is_term:
            words.append(random.choice(_samples(symbol, likely)))
            continue
        choices = rules[symbol]
        if depth > _DEPTH or len(stack) + len(words) > 300 or random.randrange(4) == 0:
            least = min(_deepest(rule, depths) for rule in choices)
            choices = [rule for rule in choices if _deepest(rule, depths) == least]
        rule = random.choice(choices)
        stack += [(part.name, part.is_term, depth + 1) for part in reversed(rule.expansion)]
    return " ".join(words)


def _seed(random: Random) -> str:
    text = random.choice(SEEDS)
    return random.choice(text.split(";")) or text if random.randrange(2) else text


@cache
def _rules() -> tuple[dict[str, list[Rule]], dict[str, int]]:
    """The rules by the name of what they make, and the least depth of each name."""
    rules: dict[str, list[Rule]] = defaultdict(list)
    for rule in _lark().rules:
        rules[rule.origin.name].append(rule)
    depths: dict[str, int] = {}
    while len(depths) < len(rules):
        for name, choices in rules.items():
            known = [depth for rule in choices if (depth := _deepest(rule, depths)) < 1000]
            if known and name not in depths:
                depths[name] = min(known) + 1
    return dict(rules), depths


def _deepest(rule: Rule, depths: dict[str, int]) -> int:
    parts: Iterable[int] = (0 if part.is_term else depths.get(part.name, 1000) for part in rule.expansion)
    return max(parts, default=0)


@cache
def _samples(terminal: str, likely: bool) -> tuple[str, ...]:
    """Texts of a terminal; if `likely`, only those that parse where it stands."""
    if terminal in SAMPLES:
        return tuple(text for text in SAMPLES[terminal] if not likely or text not in _WRONG)
    for definition in _lark().terminals:
        if definition.name == terminal and isinstance(definition.pattern, PatternStr):
            return (definition.pattern.value,)
    word = terminal.lstrip("_")
    return (word,) if terminal in UPPER_ONLY.values() else spellings(word)
