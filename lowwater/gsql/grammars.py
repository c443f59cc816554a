"""Loads the lark grammars of this folder, and caches their parse tables on disk.

Below `parser` and `declarations`. Computing the tables takes one or two seconds; loading them takes some hundredths of
a second.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

from lark import Lark, Transformer
from lark.lark import PostLex

from lowwater.caches import cache_folder
from lowwater.errors import ConfigError


def unix_lines(text: str) -> str:
    """Returns a text without a byte order mark and with `\\n` at the end of its lines."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def load_grammar(name: str, transformer: Transformer[Any, Any], postlex: PostLex | None = None) -> Lark:
    """Returns the LALR parser of a grammar file.

    Args:
        name: the name of the grammar file in this folder.
        transformer: makes the syntax tree while the parser reduces rules.
        postlex: changes tokens between the lexer and the parser; None for no changes.
    """
    grammar = files("lowwater.gsql").joinpath(name).read_text(encoding="utf-8")
    cache: str | bool = False
    try:
        digest = hashlib.sha256(grammar.encode()).hexdigest()[:16]
        cache = str(cache_folder() / f"{name}.{digest}.tables")
    except ConfigError:
        # Without a usable cache folder lark computes the tables again.
        pass
    return Lark(grammar, parser="lalr", lexer="basic", postlex=postlex, transformer=transformer, cache=cache)
