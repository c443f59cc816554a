"""Reads GSQL text into the syntax tree of `nodes`.

First stage of the pipeline. The grammar is `grammar.lark`, keywords are `words`, the tree is made in `build`, and
what is said of a text that does not parse is in `mistakes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial

from lark import Lark, Token, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater.errors import QueryError, raise_all
from lowwater.gsql.build import TreeBuilder
from lowwater.gsql.grammars import load_grammar
from lowwater.gsql.literals import fault, place_of
from lowwater.gsql.mistakes import explain
from lowwater.gsql.mistakes_refused import refused_token
from lowwater.gsql.nodes import BinaryOp, Case, Place, QueryFile, Statement, begin, children, expressions_of
from lowwater.gsql.printer import POWER
from lowwater.gsql.words import Keywords

MAX_BYTES = 250_000
MAX_DEPTH = 200
MAX_OPERATORS = MAX_DEPTH - 1
"""Of a chain such as `a + b - c`, whose every operator is a level; a list of ANDs or ORs has no limit of its own."""

MAX_ERRORS = 20


def parse(text: str, file: str = "", functions: tuple[str, ...] = ()) -> QueryFile:
    """Parses the text of one `.gsql` file.

    Args:
        text: the whole text, at most MAX_BYTES.
        file: its name, for errors.
        functions: names that follow the case rule of keywords, in lower case; the tree has every other as written.

    Returns:
        The statements in order. Nothing is resolved or typed.

    Raises:
        UnsupportedError: a construct of GSQL or SQL, named, that Lowwater does not run.
        QueryError: a syntax error, a text over MAX_BYTES, or an expression more than 200 levels deep.
        QueryErrors: several of these, at most MAX_ERRORS.

    Example:
        >>> parse("SELECT time FROM TCP").statements[0].items
        (SelectItem(expression=Name(name='time', qualifier=''), alias=''),)
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise QueryError(
            f"the query text has {size:,} bytes, more than {MAX_BYTES:,}", "split it into several files", file
        )
    source = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    tokens = _scan(source, functions)
    parts: list[QueryFile] = []
    errors: list[QueryError] = []
    for segment in _segments(tokens):
        try:
            part = _read(segment, functions)
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
    return QueryFile(statements, protocols)


@cache
def _lark(functions: tuple[str, ...] = ()) -> Lark:
    return load_grammar("grammar.lark", TreeBuilder(functions), Keywords())


def _segments(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """One statement after another, each with its `;`: a mistake in one does not hide those of the next."""
    segment: list[Token] = []
    braces = 0
    for token in tokens:
        braces += (token.type == "LBRACE") - (token.type == "RBRACE")
        segment.append(token)
        if token.type == "SEMICOLON" and braces <= 0:
            yield [*segment, Token("$END", "", line=token.end_line, column=token.end_column)]
            segment, braces = [], 0
    if len(segment) > 1:
        yield segment


def _read(tokens: Sequence[Token], functions: tuple[str, ...]) -> QueryFile:
    parser = _lark(functions).parse_interactive()
    nesting = 0
    for at, token in enumerate(tokens):
        refused = refused_token(token)
        if refused:
            raise refused
        nesting += (token.type in ("LPAR", "LSQB", "_WINDOW")) - (token.type in ("RPAR", "RSQB"))
        if nesting > MAX_DEPTH:
            raise _too_deep(place_of(token))
        try:
            result = parser.feed_token(token)
        except UnexpectedToken:
            raise explain(tokens, at, partial(_fed, functions)) from None
    assert isinstance(result, QueryFile)
    return result


def _scan(source: str, functions: tuple[str, ...]) -> list[Token]:
    tokens = list(_lark(functions).lex(source))
    line, column = (tokens[-1].end_line, tokens[-1].end_column) if tokens else (1, 1)
    return [*tokens, Token("$END", "", line=line, column=column)]


def _fed(functions: tuple[str, ...], tokens: Sequence[Token]) -> InteractiveParser:
    parser = _lark(functions).parse_interactive()
    for token in tokens:
        parser.feed_token(token)
    return parser


def _check_depth(statement: Statement) -> None:
    # A chain of operators is as deep as it is long, so this may not recurse.
    stack = [(root, 1) for root in expressions_of(statement)]
    while stack:
        expression, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _too_long(statement) or _too_deep(begin(expression))
        # The branches of a CASE are pairs in a tuple: comparing trees goes as deep again.
        below = depth + (2 if isinstance(expression, Case) else 1)
        stack += [(child, below) for child in children(expression)]


def _too_long(statement: Statement) -> QueryError | None:
    """The error of a chain of operators that is too long by itself, if there is one."""
    stack = expressions_of(statement)
    while stack:
        whole = last = stack.pop()
        operators: list[str] = []
        while isinstance(last, BinaryOp) and (last is whole or POWER[last.op] == POWER[operators[0]]):
            operators.append(last.op)
            stack.append(last.right)
            last = last.left
        if len(operators) > MAX_OPERATORS:
            names = " and ".join(f"`{op}`" for op in dict.fromkeys(reversed(operators)))
            return fault(
                f"a chain of {len(operators):,} operators {names}, more than {MAX_OPERATORS}",
                "compute a part of it in a query of its own, or put parts of it in parentheses",
                begin(whole),
            )
        stack += children(last)
    return None


def _too_deep(place: Place) -> QueryError:
    return fault(
        f"the expression is more than {MAX_DEPTH} levels deep",
        "a parenthesis or an operator is one level, a CASE two: compute a part of it in a query of its own",
        place,
    )
