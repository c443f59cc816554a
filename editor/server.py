"""The server of the Language Server Protocol: `lowwater lsp` over standard input and output.

The door of editors. Only this module imports pygls.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from lowwater import __version__
from lowwater.limits import QUERY_BYTES

from . import names
from .checking import (
    ERROR,
    NOTE,
    UNSUPPORTED,
    Options,
    Problem,
    QuerySet,
    Workspace,
    formatted,
    make_script,
)
from .names import Knowledge, definition_at, meaning_at
from .words import Script

LONGEST_MESSAGE = 64 << 20
"""Most bytes of a message of an editor; a longer one is left out."""
LONGEST_LINE = 64 << 10
"""Most bytes of a header of a message."""
NOTHING = b'{"jsonrpc": "2.0", "method": "$/nothing"}'
"""A message that every server leaves alone."""
_NO_LENGTH = re.compile(rb"Content-Length: \d{13}")
PAUSE = 0.15
"""Seconds without a key after which a text is checked."""

_SEVERITIES = {
    ERROR: types.DiagnosticSeverity.Error,
    UNSUPPORTED: types.DiagnosticSeverity.Error,
    NOTE: types.DiagnosticSeverity.Information,
}
_KINDS = {
    names.COLUMN: types.CompletionItemKind.Field,
    names.FUNCTION: types.CompletionItemKind.Function,
    names.PROTOCOL: types.CompletionItemKind.Class,
    names.QUERY: types.CompletionItemKind.Module,
    names.LINK: types.CompletionItemKind.Interface,
    names.KEYWORD: types.CompletionItemKind.Keyword,
    names.OPTION: types.CompletionItemKind.Property,
    names.PARAMETER: types.CompletionItemKind.Variable,
}

T = TypeVar("T")


class Messages:
    """What an editor sends, without what is too long: pygls takes any length into memory, and ends at a line that is
    none."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source

    def readline(self) -> bytes:
        """Reads a line of headers; a length of more digits than any has is no length."""
        line = self._source.readline(LONGEST_LINE)
        return b"\n" if line and (len(line) == LONGEST_LINE or _NO_LENGTH.match(line)) else line

    def read(self, size: int) -> bytes:
        """Reads a message; in place of one that is too long, one that means nothing."""
        if size <= LONGEST_MESSAGE:
            return self._source.read(size)
        while size > 0 and (piece := self._source.read(min(size, 1 << 16))):
            size -= len(piece)
        return NOTHING


class _Protocol(LanguageServerProtocol):
    def structure_message(self, data: Any) -> Any:
        """Refuses what is no message of the protocol with an answer to it: an editor waits for each."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data, dict) and isinstance(data.get("id"), (int, str)):
                self._send_response(data["id"], None, error.to_response_error())
            return super().structure_message(json.loads(NOTHING))


class Server(LanguageServer):
    """The server of one editor."""

    def __init__(self, options: Options) -> None:
        # Whole texts: an editor and pygls may count the lines of odd texts in two ways.
        sync = types.TextDocumentSyncKind.Full
        super().__init__("lowwater", __version__, text_document_sync_kind=sync, protocol_cls=_Protocol)
        # What is wrong is told to the editor; the log would add a traceback for every message that is none.
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
        self.options = options
        self._published: dict[str, set[str]] = {}

    def text(self, uri: str) -> str:
        return self.workspace.get_text_document(uri).source

    def query_set(self, uri: str) -> QuerySet:
        root = self.workspace.root_path
        space = Workspace(self.options, self._opened, Path(root) if root else None)
        return space.query_set(path_of(uri), self.text(uri))

    def _opened(self, path: Path) -> str | None:
        document = self.workspace.text_documents.get(from_fs_path(str(path)) or "")
        return None if document is None else document.source

    def check(self, uri: str) -> None:
        """Checks the query set of a document, and sends the problems of its files to the editor."""
        found = self.query_set(uri)
        by_uri: dict[str, list[types.Diagnostic]] = {uri: []}
        own = found.scripts[0].file
        scripts = {script.file: script for script in found.scripts}
        if found.trouble:
            by_uri[uri].append(
                _diagnostic(scripts[own], Problem(own, *scripts[own].extent(1, 1), found.trouble, "", NOTE))
            )
        for problem in found.check().problems if len(self.text(uri)) <= 4 * QUERY_BYTES else ():
            where = uri if problem.file == own else from_fs_path(problem.file) or uri
            by_uri.setdefault(where, []).append(_diagnostic(scripts[problem.file], problem))
        for where in self._published.get(uri, set()) - by_uri.keys():
            by_uri[where] = []
        self._published[uri] = {where for where, problems in by_uri.items() if problems}
        for where, problems in by_uri.items():
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(where, problems))

    def at(self, uri: str, position: types.Position, give: Callable[[Knowledge, Script, int], T]) -> T | None:
        """Returns what a function gives for the place that an editor asks for; None for a text that is too long."""
        found = self.query_set(uri)
        script = found.scripts[0]
        if len(script.source) > QUERY_BYTES:
            return None
        return give(found.learn(), script, offset_of(script.source, position))


def path_of(uri: str) -> Path:
    """Returns the path of a document; of one without a file, a name that no file has."""
    path = to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else Path("untitled.gsql")


def offset_of(source: str, position: types.Position) -> int:
    """Returns the offset of a position, whose characters are units of UTF-16, within its line."""
    lines = _line_starts(source)
    if position.line >= len(lines) - 1:
        return len(source)
    start, end = lines[position.line], lines[position.line + 1] - (position.line + 2 < len(lines))
    units = 0
    for at in range(start, end):
        if units >= position.character:
            return at
        units += 2 if ord(source[at]) > 0xFFFF else 1
    return end


def position_of(source: str, offset: int) -> types.Position:
    """Returns the position of an offset."""
    line = source.count("\n", 0, offset)
    start = source.rfind("\n", 0, offset) + 1
    return types.Position(line, sum(2 if ord(char) > 0xFFFF else 1 for char in source[start:offset]))


def range_of(source: str, start: int, end: int) -> types.Range:
    """Returns the range between two offsets."""
    return types.Range(position_of(source, start), position_of(source, end))


@lru_cache(maxsize=8)
def _line_starts(source: str) -> tuple[int, ...]:
    """Offsets of the lines, then the length of the text."""
    starts = [0]
    for at, char in enumerate(source):
        if char == "\n":
            starts.append(at + 1)
    return (*starts, len(source))


def _diagnostic(script: Script, problem: Problem) -> types.Diagnostic:
    return types.Diagnostic(
        range_of(script.source, problem.start, problem.end),
        problem.text,
        _SEVERITIES[problem.kind],
        code=problem.kind,
        source="lowwater",
    )


def _markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(types.MarkupKind.Markdown, text)


def _item(each: names.Completion) -> types.CompletionItem:
    return types.CompletionItem(
        each.label,
        kind=_KINDS[each.kind],
        detail=each.detail or None,
        documentation=_markdown(each.document) if each.document else None,
        insert_text=each.insert or None,
    )


def make_server(options: Options) -> Server:
    """Returns a server with all that it answers."""
    server = Server(options)
    waiting: dict[str, int] = {}

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.check(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.check(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        uri, version = params.text_document.uri, params.text_document.version
        waiting[uri] = version
        await asyncio.sleep(PAUSE)
        if waiting.get(uri) == version and uri in server.workspace.text_documents:
            server.check(uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        waiting.pop(params.text_document.uri, None)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "$", "["]))
    def completions(params: types.CompletionParams) -> types.CompletionList:
        found = server.at(params.text_document.uri, params.position, names.complete) or []
        return types.CompletionList(is_incomplete=False, items=[_item(each) for each in found])

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        def give(known: Knowledge, script: Script, offset: int) -> types.Hover | None:
            found = meaning_at(known, script, offset)
            if found is None:
                return None
            text, word = found
            return types.Hover(_markdown(text), range_of(script.source, word.start, word.end))

        return server.at(params.text_document.uri, params.position, give)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> types.Location | None:
        schemas = server.query_set(params.text_document.uri).schemas

        def give(known: Knowledge, script: Script, offset: int) -> types.Location | None:
            found = definition_at(known, script, offset, schemas)
            if found is None:
                return None
            uri = params.text_document.uri if found.script is script else from_fs_path(str(Path(found.file).resolve()))
            return types.Location(uri or "", range_of(found.script.source, found.start, found.end))

        return server.at(params.text_document.uri, params.position, give)

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        script = make_script(str(path_of(params.text_document.uri)), server.text(params.text_document.uri))
        if len(script.source) > QUERY_BYTES:
            return []
        text = formatted(script)
        whole = types.Range(types.Position(0, 0), types.Position(script.source.count("\n") + 1, 0))
        return [] if text == script.source else [types.TextEdit(whole, text)]

    return server
