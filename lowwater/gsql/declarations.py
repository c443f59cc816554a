"""Reads the declarations of functions that `--functions` names, in GSQL's own format.

Beside the parser of queries, at the top of the pipeline. The grammar is `functions.lark`; what the declarations mean is
said by `lowwater.catalog.declared`. Our own line `MODULE 'file.py';` names the Python of what is declared after it.
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
from lowwater.gsql.grammars import load_grammar
from lowwater.gsql.literals import fault, place_of, unquoted
from lowwater.gsql.nodes import Place

MAX_BYTES = 1_000_000
KINDS = ("FUN", "PRED", "UDAF", "EXTR", "SFUN", "STATE")
COSTS = ("FREE", "LOW", "HIGH", "EXPENSIVE", "TOP")
FLAGS = (
    *("PARTIAL", "COMBINABLE", "LFTA_LEGAL", "LFTA_ONLY", "HFTA_ONLY"),
    *("SAMPLING", "RUNNING", "LFTA_BAILOUT", "MULT_RETURNS"),
)
NAMING = ("SUBAGGR", "SUPERAGGR", "HFTA_SUBAGGR", "HFTA_SUPERAGGR")


@dataclass(frozen=True)
class Module:
    """`MODULE 'file.py';`: the path as written."""

    file: str
    place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class Parameter:
    """A parameter: `type[(attribute, ...)] [HANDLE|CONST] [CLASS]`.

    Attributes:
        type: as written.
        attributes: the attributes of the type, such as `increasing`, each as written.
        constant: `HANDLE`, `CONST` or empty.
        classed: whether CLASS stands behind it.
        place: the place of the type.
    """

    type: str
    attributes: tuple[str, ...] = ()
    constant: str = ""
    classed: bool = False
    place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class Declaration:
    """One declaration.

    Attributes:
        kind: one of KINDS.
        name: what is declared.
        returns: type of the result as written; empty for PRED and STATE.
        attributes: the attributes of the result's type.
        modifiers: word -> its value, empty for the words of FLAGS.
        parameters: in order.
        uses: the names after the declared one (before it for STATE): storage type of a UDAF or STATE, aggregate and
            function of an EXTR, state of an SFUN.
        module: the latest MODULE line before it, None where there is none.
        place: the place of the name.
    """

    kind: str
    name: str
    returns: str = ""
    attributes: tuple[str, ...] = ()
    modifiers: tuple[tuple[str, str], ...] = ()
    parameters: tuple[Parameter, ...] = ()
    uses: tuple[str, ...] = ()
    module: Module | None = None
    place: Place = field(default=Place(), compare=False, repr=False)


@dataclass(frozen=True)
class DeclarationFile:
    """The declarations of one file, in order; `source` is its text."""

    file: str
    source: str = field(repr=False)
    declarations: tuple[Declaration, ...] = ()


def parse_declarations(text: str, file: str = "") -> DeclarationFile:
    """Parses the text of one file of declarations.

    Args:
        text: the whole text, at most MAX_BYTES.
        file: its name, for errors.

    Raises:
        QueryError: everything that is wrong with the text, as QueryErrors where it is more than one thing.

    Example:
        >>> parse_declarations("float FUN [LFTA_LEGAL, COST LOW] sqrt(float);").declarations[0].modifiers
        (('LFTA_LEGAL', ''), ('COST', 'LOW'))
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise QueryError(f"the declarations have {size:,} bytes, more than {MAX_BYTES:,}", "split the file", file)
    source = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found: list[Declaration] = []
    errors: list[QueryError] = []
    module: Module | None = None
    for tokens in _statements(source):
        try:
            node = _read(tokens)
        except QueryError as error:
            errors.append(QueryError(error.message, error.hint, file, error.line, error.column, source))
            continue
        if isinstance(node, Module):
            module = node
        else:
            found.append(Declaration(**{**vars(node), "module": module}))
    raise_all(errors)
    return DeclarationFile(file, source, tuple(found))


class _Keep(PostLex):
    """Hands all tokens on; it is there so that the lexer keeps BAD, which no rule uses."""

    always_accept = ("BAD",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


class _Builder(Transformer[Token, Any]):
    """Makes the nodes; its methods are the rules of the grammar."""

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

    def parameters(self, parts: Sequence[Parameter]) -> tuple[Parameter, ...]:
        return tuple(parts)

    @v_args(inline=True)
    def parameter(
        self, name: Token, attributes: tuple[str, ...] | None, constant: Token | None, classed: Token | None
    ) -> Parameter:
        return Parameter(str(name), attributes or (), str(constant or ""), classed is not None, place_of(name))

    def function(self, parts: Sequence[Any]) -> Declaration:
        (returns, attributes), word, modifiers, name, *uses, parameters = parts
        others = tuple(str(each) for each in uses if each is not None)
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
    return load_grammar("functions.lark", _Builder(), _Keep())


def _statements(source: str) -> Iterator[list[Token]]:
    tokens: list[Token] = []
    for token in _lark().lex(source):
        tokens.append(token)
        if token.type == "SEMICOLON":
            yield tokens
            tokens = []
    if tokens:
        yield tokens


def _read(tokens: Sequence[Token]) -> Declaration | Module:
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


_SHOWN = {
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
    wanted = [_SHOWN.get(kind, f"`{kind}`") for kind in sorted(accepted, key=lambda kind: (kind not in _SHOWN, kind))]
    expected = " or ".join([", ".join(wanted[:-1]), wanted[-1]] if len(wanted) > 1 else wanted)
    if token.type == "BAD" and token == "'":
        return _fault("the string is not closed", "end it with `'` on the line on which it begins", token)
    what = "the declaration ends too early" if token.type == "$END" else f"unexpected `{token}`"
    close = get_close_matches(str(token).upper(), [kind for kind in accepted if kind not in _SHOWN], 1, 0.7)
    hint = f"did you mean {close[0]}?" if token.type == "NAME" and close else _HINTS.get(token.type, "")
    return _fault(f"{what}: expected {expected}", hint, token)


_HINTS = {"$END": "end every declaration with `;`", "BAD": "leave it out; comments begin with -- or //"}


def _check_modifier(word: Token, value: Token | None) -> None:
    if word in FLAGS:
        if value is not None:
            raise _fault(f"{word} takes no value", "write a comma between two modifiers", value)
    elif word in NAMING:
        if value is None:
            raise _fault(f"{word} names no aggregate", f"write `{word} name`", word)
    elif word == "COST":
        if value not in COSTS:
            raise _fault(
                f"COST {value or ''}".rstrip() + " is no class of costs", f"there are: {', '.join(COSTS)}", word
            )
    else:
        known = (*FLAGS, *NAMING, "COST")
        close = get_close_matches(word.upper(), known, 1)
        raise _fault(f"unknown modifier {word}", f"did you mean {close[0]}?" if close else "", word)


def _fault(message: str, hint: str, token: Token) -> QueryError:
    return fault(message, hint, place_of(token))
