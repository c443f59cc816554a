"""Reads GSQL text into the syntax tree of `nodes`.

First stage of the pipeline. The grammar is `grammar.lark`, keywords are `words`, the tree is made in `build`, and
what is said of a text that does not parse is in `mistakes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from lark import Lark, Token, UnexpectedCharacters, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from lowwater.errors import QueryError
from lowwater.gsql.build import TreeBuilder, fault, place_of
from lowwater.gsql.mistakes import bad_character, explain, refused_token
from lowwater.gsql.nodes import BinaryOp, Call, Expression, Merge, Place, QueryFile, Select, Statement, UnaryOp
from lowwater.gsql.words import Keywords

MAX_BYTES = 250_000
MAX_DEPTH = 200


def parse(text: str, file: str = "") -> QueryFile:
    """Parses the text of one `.gsql` file.

    Args:
        text: the whole text, at most MAX_BYTES.
        file: its name, for errors.

    Returns:
        The statements in order. Nothing is resolved or typed.

    Raises:
        UnsupportedError: a construct of GSQL or SQL, named, that Lowwater does not run yet.
        QueryError: a syntax error, a text over MAX_BYTES, or an expression more than 200 levels deep.

    Example:
        >>> parse("SELECT time FROM TCP").statements[0].sources
        (SourceRef(name='TCP', links=(), bracketed=False, alias=''),)
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise QueryError(
            f"the query text has {size:,} bytes, more than {MAX_BYTES:,}", "split it into several files", file
        )
    source = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = _read(source)
        for statement in tree.statements:
            _check_depth(statement)
    except QueryError as error:
        raise type(error)(error.message, error.hint, file, error.line, error.column, source) from None
    return tree


@cache
def _lark() -> Lark:
    grammar = files("lowwater.gsql").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", postlex=Keywords(), transformer=TreeBuilder())


def _read(source: str) -> QueryFile:
    tokens, failure = _scan(source)
    parser = _lark().parse_interactive()
    nesting = 0
    for at, token in enumerate(tokens):
        refused = refused_token(token)
        if refused:
            raise refused
        nesting += (token.type in ("LPAR", "LSQB")) - (token.type in ("RPAR", "RSQB"))
        if nesting > MAX_DEPTH:
            raise _too_deep(place_of(token))
        if failure and token.type == "$END":
            raise failure
        try:
            result = parser.feed_token(token)
        except UnexpectedToken:
            raise explain(tokens, at, _fed) from None
    assert isinstance(result, QueryFile)
    return result


def _scan(source: str) -> tuple[list[Token], QueryError | None]:
    # A bad character is reported only after the tokens before it proved right: the first mistake comes first.
    tokens: list[Token] = []
    failure = None
    try:
        tokens.extend(_lark().lex(source))
    except UnexpectedCharacters as error:
        failure = bad_character(error.char, error.line, error.column)
    line, column = (tokens[-1].end_line, tokens[-1].end_column) if tokens else (1, 1)
    tokens.append(Token("$END", "", line=line, column=column))
    return tokens, failure


def _fed(tokens: Sequence[Token]) -> InteractiveParser:
    parser = _lark().parse_interactive()
    for token in tokens:
        parser.feed_token(token)
    return parser


def _check_depth(statement: Statement) -> None:
    roots: list[Expression | None] = []
    if isinstance(statement, Select):
        roots += [item.expression for item in statement.items + statement.group_by]
        roots += [statement.where, statement.having]
    elif isinstance(statement, Merge):
        roots = [statement.slack]
    # A chain of operators is as deep as it is long, so this may not recurse.
    stack = [(root, 1) for root in roots if root is not None]
    while stack:
        expression, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise _too_deep(getattr(expression, "place", Place()))
        stack += [(child, depth + 1) for child in _children(expression)]


def _children(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, BinaryOp):
        return (expression.left, expression.right)
    if isinstance(expression, UnaryOp):
        return (expression.operand,)
    return expression.arguments if isinstance(expression, Call) else ()


def _too_deep(place: Place) -> QueryError:
    return fault(
        f"the expression is more than {MAX_DEPTH} levels deep",
        "every parenthesis and every operator of a chain is one level: compute a part of it in a query of its own",
        place,
    )
