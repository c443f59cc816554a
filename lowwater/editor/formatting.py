"""The canonical form of a text that people edit: each statement by the printer of the language.

A statement with a mistake, or with a comment inside of it, stays as it is written: the printer knows no comments.
"""

from __future__ import annotations

from lowwater.catalog.native import NATIVE
from lowwater.editor.words import Outline, Script
from lowwater.errors import QueryError
from lowwater.gsql.parser import parse
from lowwater.gsql.printer import print_file


def formatted(script: Script) -> str:
    """Returns a text with its statements in canonical form, an empty line between them, comments before them kept."""
    parts = [part for statement in script.statements if (part := _statement(script, statement))]
    return "\n\n".join(parts) + "\n" if parts else script.source


def _statement(script: Script, statement: Outline) -> str:
    """Returns a statement in canonical form, with the comments before it; unchanged where it cannot be printed."""
    written = script.source[statement.start : statement.end]
    first = next((word.start for word in statement.words if word.kind != "comment"), statement.end)
    head = script.source[statement.start : first]
    same_line = _on_line_before(script, statement)
    body = script.source[first : statement.end]
    if same_line or not body or any(word.kind == "comment" and word.start > first for word in statement.words):
        return written.rstrip()
    try:
        tree = parse(body, script.file, tuple(NATIVE))
        printed = print_file(tree).rstrip("\n")
        if parse(printed, script.file, tuple(NATIVE)) != tree:
            return written.rstrip()
    except QueryError:
        return written.rstrip()
    if body.endswith(";") and not printed.endswith((";", "}")):
        printed += ";"
    comments = "\n".join(line.rstrip() for line in head.splitlines())
    return f"{comments.rstrip()}\n{printed}" if comments.strip() else printed


def _on_line_before(script: Script, statement: Outline) -> bool:
    """Whether the statement begins with a comment that belongs to the line of the one before."""
    line = script.source.rfind("\n", 0, statement.start) + 1
    return bool(script.source[line : statement.start].strip()) and statement.words[0].kind == "comment"
