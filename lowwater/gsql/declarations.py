"""Parses declarations of functions, the files of `--functions`, in GSQL's own format.

Beside the query parser, at the top of the pipeline. The grammar is `functions.lark`. `lowwater.catalog.user_functions`
checks the declarations and builds a catalog. `MODULE 'file.py';` is our extension: it names the Python file that
implements the declarations after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedToken, v_args
from lark.lark import PostLex

from lowwater.errors import QueryError, raise_all
from lowwater.gsql.build import fault, place_of, unquoted
from lowwater.gsql.nodes import Place
from lowwater.gsql.parser import load_grammar, unix_lines
from lowwater.limits import DECLARATIONS_BYTES

KINDS = ("FUN", "PRED", "UDAF", "EXTR", "SFUN", "STATE")
COSTS = ("FREE", "LOW", "HIGH", "EXPENSIVE", "TOP")
FLAGS = (
    *("PARTIAL", "COMBINABLE", "LFTA_LEGAL", "LFTA_ONLY", "HFTA_ONLY"),
    *("SAMPLING", "RUNNING", "LFTA_BAILOUT", "MULT_RETURNS"),
)
AGGREGATE_MODIFIERS = ("SUBAGGR", "SUPERAGGR", "HFTA_SUBAGGR", "HFTA_SUPERAGGR")


@dataclass(frozen=True)
class Module:
    """`MODULE 'file.py';`: the path of a Python file, as written."""

    file: str
    place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class FunctionParameter:
    """A parameter of a function: `type[(attribute, ...)] [HANDLE|CONST] [CLASS]`."""

    type: str  # the name of the type, as written
    attributes: tuple[str, ...] = ()  # the attributes of the type, such as `increasing`, as written
    constant: str = ""  # `HANDLE`, `CONST` or empty
    classed: bool = False  # whether CLASS follows
    place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class Declaration:
    """The declaration of one function, predicate, aggregate or state."""

    kind: str
    name: str
    returns: str = ""  # the type of the result, as written; empty for PRED and STATE
    attributes: tuple[str, ...] = ()
    modifiers: tuple[tuple[str, str], ...] = ()  # (word, value) pairs; the value of a word of FLAGS is empty
    parameters: tuple[FunctionParameter, ...] = ()
    # the names after the declared name (before it for STATE): the storage type of a UDAF or STATE, the aggregate and
    # the function of an EXTR, the state of an SFUN
    uses: tuple[str, ...] = ()
    module: Module | None = None  # the latest MODULE line before the declaration; None without one
    place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class DeclarationFile:
    """The declarations of one file, in order. `source` is the text of the file."""

    file: str
    source: str = field(repr=False)
    declarations: tuple[Declaration, ...] = ()


def parse_declarations(text: str, file: str = "") -> DeclarationFile:
    """Parses one file of declarations.

    Args:
        text: the text of the file, at most DECLARATIONS_BYTES in UTF-8.

    Raises:
        QueryError: the text has a mistake; QueryErrors where it has several.

    Example:
        >>> parse_declarations("float FUN [LFTA_LEGAL, COST LOW] sqrt(float);").declarations[0].modifiers
        (('LFTA_LEGAL', ''), ('COST', 'LOW'))
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > DECLARATIONS_BYTES:
        raise QueryError(
            f"the declarations have {size:,} bytes, more than {DECLARATIONS_BYTES:,}", "split the file", file
        )
    source = unix_lines(text)
    declarations: list[Declaration] = []
    errors: list[QueryError] = []
    module: Module | None = None
    for tokens in _statements(source):
        try:
            node = _parse(tokens)
        except QueryError as error:
            errors.append(QueryError(error.message, error.hint, file, error.line, error.column, source))
            continue
        if isinstance(node, Module):
            module = node
        else:
            declarations.append(Declaration(**{**vars(node), "module": module}))
    raise_all(errors)
    return DeclarationFile(file, source, tuple(declarations))


class _PassTokens(PostLex):
    """Passes every token on. Its `always_accept` keeps the terminal BAD, which no rule uses, in the lexer."""

    always_accept = ("BAD",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


class _Builder(Transformer[Token, Any]):
    """Makes a Declaration or a Module, one method per grammar rule."""

    @v_args(inline=True)
    def start(self, node: Declaration | Module) -> Declaration | Module:
        return node

    @v_args(inline=True)
    def module(self, word: Token, path: Token) -> Module:
        return Module(unquoted(path), place_of(word))

    def attribute(self, parts: Sequence[Token | None]) -> str:
        return " ".join(str(part) for part in parts if part is not None)

    def attributes(self, parts: Sequence[str]) -> tuple[str, ...]:
        return tuple(parts)

    def result(self, parts: Sequence[Any]) -> tuple[str, tuple[str, ...]]:
        return str(parts[0]), parts[1] or ()

    def modifiers(self, parts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple(parts)

    @v_args(inline=True)
    def modifier(self, word: Token, value: Token | None) -> tuple[str, str]:
        _check_modifier(word, value)
        return str(word), str(value or "")

    def parameters(self, parts: Sequence[FunctionParameter]) -> tuple[FunctionParameter, ...]:
        return tuple(parts)

    @v_args(inline=True)
    def parameter(
        self, name: Token, attributes: tuple[str, ...] | None, constant: Token | None, classed: Token | None
    ) -> FunctionParameter:
        return FunctionParameter(str(name), attributes or (), str(constant or ""), classed is not None, place_of(name))

    def function(self, parts: Sequence[Any]) -> Declaration:
        (returns, attributes), word, modifiers, name, *uses, parameters = parts
        others = tuple(str(other) for other in uses if other is not None)
        return Declaration(
            str(word), str(name), returns, attributes, modifiers or (), parameters or (), others, place=place_of(name)
        )

    aggregate = extraction = stateful = function

    @v_args(inline=True)
    def predicate(self, word: Token, modifiers: Any, name: Token, parameters: Any) -> Declaration:
        return Declaration(str(word), str(name), "", (), modifiers or (), parameters or (), place=place_of(name))

    @v_args(inline=True)
    def state(self, storage: Token, word: Token, name: Token) -> Declaration:
        return Declaration(str(word), str(name), uses=(str(storage),), place=place_of(name))


@cache
def _lark() -> Lark:
    return load_grammar("functions.lark", _Builder(), _PassTokens())


def _statements(source: str) -> Iterator[list[Token]]:
    tokens: list[Token] = []
    for token in _lark().lex(source):
        tokens.append(token)
        if token.type == "SEMICOLON":
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _parse(tokens: Sequence[Token]) -> Declaration | Module:
    parser = _lark().parse_interactive()
    last = tokens[-1]
    end = Token("$END", "", line=last.end_line or 0, column=last.end_column or 0)
    for token in (*tokens, end):
        try:
            result = parser.feed_token(token)
        except UnexpectedToken:
            accepted: set[str] = parser.accepts()  # type: ignore[no-untyped-call]
            raise _unexpected(token, accepted) from None
    assert isinstance(result, Declaration | Module)
    return result


_TERMINAL_NAMES = {
    "NAME": "a name",
    "STRING": "a string",
    "INT": "a number",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "COMMA": "`,`",
    "SEMICOLON": "`;`",
}


def _unexpected(token: Token, accepted: Iterable[str]) -> QueryError:
    alternatives = [
        _TERMINAL_NAMES.get(kind, f"`{kind}`")
        for kind in sorted(accepted, key=lambda kind: (kind not in _TERMINAL_NAMES, kind))
    ]
    expected = " or ".join([", ".join(alternatives[:-1]), alternatives[-1]] if len(alternatives) > 1 else alternatives)
    if token.type == "BAD" and token == "'":
        return _fault("the string is not closed", "end it with `'` on the line on which it begins", token)
    mistake = "the declaration ends too early" if token.type == "$END" else f"unexpected `{token}`"
    close = get_close_matches(str(token).upper(), [kind for kind in accepted if kind not in _TERMINAL_NAMES], 1, 0.7)
    hint = f"did you mean {close[0]}?" if token.type == "NAME" and close else _HINTS.get(token.type, "")
    return _fault(f"{mistake}: expected {expected}", hint, token)


_HINTS = {"$END": "end every declaration with `;`", "BAD": "leave it out; comments begin with -- or //"}


def _check_modifier(word: Token, value: Token | None) -> None:
    if word in FLAGS:
        if value is not None:
            raise _fault(f"{word} takes no value", "write a comma between two modifiers", value)
    elif word in AGGREGATE_MODIFIERS:
        if value is None:
            raise _fault(f"{word} names no aggregate", f"write `{word} name`", word)
    elif word == "COST":
        if value not in COSTS:
            raise _fault(
                f"COST {value or ''}".rstrip() + " is no class of costs", f"there are: {', '.join(COSTS)}", word
            )
    else:
        modifiers = (*FLAGS, *AGGREGATE_MODIFIERS, "COST")
        close = get_close_matches(word.upper(), modifiers, 1)
        raise _fault(f"unknown modifier {word}", f"did you mean {close[0]}?" if close else "", word)


def _fault(message: str, hint: str, token: Token) -> QueryError:
    return fault(message, hint, place_of(token))
