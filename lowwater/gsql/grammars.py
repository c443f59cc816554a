"""Loads the grammars of this folder; their tables are made once and kept.

Below `parser` and `declarations`. Making the tables takes a second or two, loading them some hundredths of one.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

from lark import Lark, Transformer
from lark.lark import PostLex

from lowwater.caches import cache_folder
from lowwater.errors import ConfigError


def load_grammar(name: str, transformer: Transformer[Any, Any], postlex: PostLex | None = None) -> Lark:
    """The LALR parser of a grammar file.

    Args:
        name: the name of the file in this folder.
        transformer: makes the tree while rules are reduced.
        postlex: between the lexer and the parser.
    """
    grammar = files("lowwater.gsql").joinpath(name).read_text(encoding="utf-8")
    kept: str | bool = False
    try:
        digest = hashlib.sha256(grammar.encode()).hexdigest()[:16]
        kept = str(cache_folder() / f"{name}.{digest}.tables")
    except ConfigError:
        # A parser needs no folder: where none can be used it is made anew.
        pass
    return Lark(grammar, parser="lalr", lexer="basic", postlex=postlex, transformer=transformer, cache=kept)
