"""Parses GSQL text into the syntax tree of `nodes`.

First stage of the pipeline. The grammar is `grammar.lark`, `words` recognizes keywords, `build` makes the tree, and
`mistakes` explains syntax errors.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedToken
from lark.lark import PostLex
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater import caches, limits
from lowwater.errors import ConfigError, LowwaterError, QueryError, raise_all
from lowwater.gsql import build, nodes as syntax, words
from lowwater.gsql.inner import apart
from lowwater.gsql.mistakes import refused_token, syntax_error
from lowwater.precedence import POWER
from lowwater.storage.untrusted import open_file

# Parse tables, cached on disk: computing them takes one or two seconds, loading them some hundredths of a second.


def unix_lines(text: str) -> str:
    """Returns a text without a byte order mark and with `\\n` at the end of its lines."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def read_text(path: Path, what: str = "query file") -> str:
    """Returns the text of a file of queries or PROTOCOL blocks.
    Raises LowwaterError if the file cannot be read, or has more than QUERY_BYTES. `what`: the kind of file."""
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8") as file:
            text = file.read(limits.QUERY_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise LowwaterError(f"{what} {path} cannot be read: {reason}") from None
    if len(text) > limits.QUERY_BYTES:
        raise LowwaterError(f"{what} {path} has more than {limits.QUERY_BYTES:,} bytes", "split it into several files")
    return text


def load_grammar(name: str, transformer: Transformer[Any, Any], postlex: PostLex | None = None) -> Lark:
    """Returns the LALR parser of a grammar file. `postlex`: changes tokens between the lexer and the parser; None for
    no changes."""
    grammar = files("lowwater.gsql").joinpath(name).read_text(encoding="utf-8")
    cache: str | bool = False
    try:
        digest = hashlib.sha256(grammar.encode()).hexdigest()[:16]
        cache = str(caches.cache_folder() / f"{name}.{digest}.tables")
    except ConfigError:
        # Without a usable cache folder lark computes the tables again.
        pass
    return Lark(grammar, parser="lalr", lexer="basic", postlex=postlex, transformer=transformer, cache=cache)


MAX_OPERATORS = limits.EXPRESSION_DEPTH - 1
"""Most operators of a chain such as `a + b - c`, where each operator is one level. ANDs and ORs have no such limit."""

MAX_ERRORS = 20


def parse(text: str, file: str = "", functions: tuple[str, ...] = ()) -> syntax.QueryFile:
    """Parses the text of one `.gsql` file.

    Args:
        text: the text of the file, at most QUERY_BYTES in UTF-8.
        functions: names that follow the case rule of keywords, in lower case; the tree has every other as written.

    Returns:
        The statements in order. Names are not resolved, and expressions have no types.

    Raises:
        UnsupportedError: a construct of GSQL or SQL that Lowwater does not run.
        QueryError: a syntax error, a text over QUERY_BYTES, or an expression more than 200 levels deep.
        QueryErrors: several of these errors, at most MAX_ERRORS.

    Example:
        >>> parse("SELECT time FROM TCP").statements[0].items
        (SelectItem(expression=Name(name='time', qualifier=''), alias='', hidden=False),)
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.QUERY_BYTES:
        raise QueryError(
            f"the query text has {size:,} bytes, more than {limits.QUERY_BYTES:,}", "split it into several files", file
        )
    source = unix_lines(text)
    tokens = tokens_of(source, functions)
    parts: list[syntax.QueryFile] = []
    errors = [*_swallowed(source, file)]
    for segment in _segments(tokens):
        try:
            part = _with_inner(segment, functions)
            for statement in part.statements:
                _check_depth(statement)
        except QueryError as error:
            errors.append(type(error)(error.message, error.hint, file, error.line, error.column, source))
        else:
            parts.append(part)
        if len(errors) == MAX_ERRORS:
            break
    raise_all(errors)
    statements = tuple(statement for part in parts for statement in part.statements)
    protocols = tuple(protocol for part in parts for protocol in part.protocols)
    if not statements and not protocols:
        raise QueryError("the text holds no query", "write a SELECT or a MERGE", file, 1, 1, source)
    return syntax.QueryFile(statements, protocols)


_DIVIDED = re.compile(
    r"""(?:[^'"/-]|'[^']*'|"[^"]*"|/(?!/)|-(?!-))*[\w)]\s*(//)\s*\d+\s*(?:AS\b|FROM\b|,|\)|[<>=])""", re.I
)
"""A line in which `//` stands as an operator, as in `time // 60 AS minute`."""


def _swallowed(source: str, file: str) -> Iterator[QueryError]:
    """Yields an error for each line of which a `//` that is meant as a division would make a comment."""
    for number, line in enumerate(source.split("\n"), 1):
        if "//" in line and (found := _DIVIDED.match(line)):
            hint = "write a/60: the division of whole numbers cuts"
            message = "`//` begins a comment, and what follows it on the line is not read"
            yield QueryError(message, hint, file, number, found.start(1) + 1, source)


@cache
def _lark(functions: tuple[str, ...] = ()) -> Lark:
    return load_grammar("grammar.lark", build.TreeBuilder(functions), words.Keywords())


def _segments(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Splits the tokens into statements with their `;`, so that one error does not hide errors in later statements."""
    segment: list[Token] = []
    braces = 0
    for token in tokens:
        braces += (token.type == "LBRACE") - (token.type == "RBRACE")
        segment.append(token)
        if token.type == "SEMICOLON" and braces <= 0:
            if len(segment) > 1:
                yield [*segment, Token("$END", "", line=token.end_line, column=token.end_column)]
            segment, braces = [], 0
    if len(segment) > 1:
        yield segment


def _with_inner(tokens: Sequence[Token], functions: tuple[str, ...]) -> syntax.QueryFile:
    """Returns a statement behind its inner queries, which are hidden queries of their own with its parameters and its
    dialect."""
    *inner, own = apart(tokens)
    below = [(part.name, each) for part in inner for each in _parse_statement(part.tokens, functions).statements]
    outer = _parse_statement(own.tokens, functions)
    if not below:
        return outer
    (reader,) = outer.statements
    assert isinstance(reader, syntax.Select | syntax.Merge)
    dialect = tuple([entry for entry in reader.defines if entry[0] == "dialect"])
    named: list[syntax.Statement] = []
    for name, statement in below:
        assert isinstance(statement, syntax.Select | syntax.Merge)
        defines = (("query_name", name), ("visibility", "internal"), *dialect)
        read = syntax.parameters_of(statement)
        params = tuple([param for param in reader.params if param.name in read])
        named.append(replace(statement, defines=defines, params=params))
    return syntax.QueryFile((*named, reader), outer.protocols)


def _parse_statement(tokens: Sequence[Token], functions: tuple[str, ...]) -> syntax.QueryFile:
    parser = _lark(functions).parse_interactive()
    nesting = 0
    for at, token in enumerate(tokens):
        error = refused_token(token)
        if error:
            raise error
        nesting += (token.type in ("LPAR", "LSQB", "_WINDOW")) - (token.type in ("RPAR", "RSQB"))
        if nesting > limits.EXPRESSION_DEPTH:
            raise _too_deep(build.place_of(token))
        try:
            result = parser.feed_token(token)
        except UnexpectedToken:
            raise syntax_error(tokens, at, partial(_parser_after, functions)) from None
    assert isinstance(result, syntax.QueryFile)
    return result


def tokens_of(source: str, functions: tuple[str, ...]) -> list[Token]:
    """Returns the tokens of a text with `\\n` at line ends, and the end of it; `functions` as for `parse`."""
    tokens = list(_lark(functions).lex(source))
    line, column = (tokens[-1].end_line, tokens[-1].end_column) if tokens else (1, 1)
    return [*tokens, Token("$END", "", line=line, column=column)]


def _parser_after(functions: tuple[str, ...], tokens: Sequence[Token]) -> InteractiveParser:
    parser = _lark(functions).parse_interactive()
    for token in tokens:
        parser.feed_token(token)
    return parser


def _check_depth(statement: syntax.Statement) -> None:
    # A loop instead of recursion: a chain of operators is as deep as it is long.
    stack = [(root, 1) for root in syntax.expressions_of(statement)]
    while stack:
        expression, depth = stack.pop()
        if depth > limits.EXPRESSION_DEPTH:
            raise _too_long(statement) or _too_deep(syntax.begin(expression))
        # A CASE counts twice: its branches are pairs in a tuple, so comparing trees recurses twice per CASE.
        below = depth + (2 if isinstance(expression, syntax.Case) else 1)
        stack += [(child, below) for child in syntax.children(expression)]


def _too_long(statement: syntax.Statement) -> QueryError | None:
    """Returns the error of a chain with too many operators, if the statement has one; else None."""
    stack = syntax.expressions_of(statement)
    while stack:
        first = operand = stack.pop()
        operators: list[str] = []
        while isinstance(operand, syntax.BinaryOp) and (operand is first or POWER[operand.op] == POWER[operators[0]]):
            operators.append(operand.op)
            stack.append(operand.right)
            operand = operand.left
        if len(operators) > MAX_OPERATORS:
            names = " and ".join(f"`{op}`" for op in dict.fromkeys(reversed(operators)))
            return build.fault(
                f"a chain of {len(operators):,} operators {names}, more than {MAX_OPERATORS}",
                "compute a part of it in a query of its own, or put parts of it in parentheses",
                syntax.begin(first),
            )
        stack += syntax.children(operand)
    return None


def _too_deep(place: syntax.Place) -> QueryError:
    return build.fault(
        f"the expression is more than {limits.EXPRESSION_DEPTH} levels deep",
        "a parenthesis or an operator is one level, a CASE two: compute a part of it in a query of its own",
        place,
    )
