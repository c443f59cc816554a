"""The grammar of colours for editors, made from the keywords of the language: `python -m tests.editor.extension`."""

from __future__ import annotations

import json
from typing import Any

from lowwater.gsql.words import KEYWORDS, UNITS, UPPER_ONLY
from tests.docs.book import ROOT

FOLDER = ROOT / "editors" / "vscode"
GRAMMAR = FOLDER / "syntaxes" / "gsql.tmLanguage.json"


JOINS = (
    r"\b(ASOF\s+(ONCE\s+)?)?((INNER|LEFT|RIGHT|FULL)\s+)?((OUTER|ANTI|SEMI)\s+)?JOIN\b"
    r"|(?<![.$#])\bON\b(?!\s*[.,;])|\bUSING(?=\s*\()"
)
"""The words of joins between sources, where they are no names: a column may be called ON."""

FIRST_ROWS = (
    r"\bORDER\s+BY\b|\bNULLS\s+(FIRST|LAST)\b|\b(A|DE)SC(?=\s*(,|\)|;|$|NULLS\b|LIMIT\b))"
    r"|\bLIMIT(?=\s+[0-9])|\bWITH\s+TIES\b|\bPER(?=\s+[A-Za-z_])|\bQUALIFY(?=\s+[A-Za-z_]+\s*\()"
    r"|\bOVER(?=\s*\()|\bPARTITION\s+BY\b"
)
"""The words of ORDER BY, LIMIT and QUALIFY, where they are no names."""


def grammar() -> dict[str, Any]:
    """The TextMate grammar of GSQL."""
    either = "|".join(sorted(KEYWORDS))
    upper = "|".join(sorted(UPPER_ONLY))
    units = "|".join(sorted(UNITS, key=lambda unit: (-len(unit), unit)))
    return {
        "scopeName": "source.gsql",
        "name": "GSQL",
        "patterns": [
            {"name": "comment.line.gsql", "match": "(--|//).*$"},
            {"name": "string.quoted.single.gsql", "match": "'([^'\\n]|'')*'?"},
            {"name": "keyword.control.gsql", "match": f"(?i:\\b({either})\\b)"},
            {"name": "keyword.control.gsql", "match": f"(?i:{JOINS})"},
            {"name": "keyword.control.gsql", "match": f"(?i:{FIRST_ROWS})"},
            {"name": "keyword.control.gsql", "match": f"\\b({upper})\\b"},
            {"name": "constant.numeric.gsql", "match": f"\\b[0-9][0-9A-Za-z_.]*(\\s+({units})\\b)?"},
            {"name": "variable.parameter.gsql", "match": "[$#@][A-Za-z_][A-Za-z0-9_]*"},
            {"name": "entity.name.function.gsql", "match": "\\b[A-Za-z_][A-Za-z0-9_]*(?=\\s*\\()"},
        ],
    }


def text() -> str:
    """The grammar as its file has it."""
    return json.dumps(grammar(), indent=2) + "\n"


if __name__ == "__main__":
    GRAMMAR.write_text(text(), encoding="utf-8")
