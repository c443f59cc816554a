"""Hints are followed: every section and every command that a message names is one, whatever the name of the link."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from lowwater.cli.main import cli
from lowwater.config import section_of, toml_key
from lowwater.refused import EXAMPLES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [
    path
    for folder in ("lowwater", "editor", "plugins", "review", "dags")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
NAME = "node_10.1.0.11"
SECTIONS = ("links", "query_sets", "sets")
WORDS = ("section_of", "lowwater ", *(f"[{name}." for name in SECTIONS))
WRITERS = {"section_of": section_of, "toml_key": toml_key}
COMMAND = re.compile(
    r"`lowwater ([^`]+)`|(?<![`\w])lowwater ((?:ingest|replay|init) --?[^;\"`]*|replay \S+ --[^;\"`]*)"
)


@cache
def texts() -> list[tuple[str, str]]:
    """Every text of the source that is no docstring, where it is: with NAME in the place of its values."""
    return [found for path in SOURCES for found in _of(path)]


def _of(path: Path) -> Iterator[tuple[str, str]]:
    source = path.read_text(encoding="utf-8")
    if not any(word in source for word in WORDS):
        return
    nodes = list(ast.walk(ast.parse(source)))
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    inner |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # documentation
    name = path.relative_to(ROOT)
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield f"{name}:{node.lineno}", "".join(map(_shown, node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield f"{name}:{node.lineno}", node.value


def _shown(part: ast.expr) -> str:
    if isinstance(part, ast.Constant):
        return str(part.value)
    assert isinstance(part, ast.FormattedValue)
    call = part.value
    called = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
    if isinstance(call, ast.Call) and called in WRITERS:
        given: list[Any] = [each.value for each in call.args[1:] if isinstance(each, ast.Constant)]
        named = {
            each.arg: each.value.value for each in call.keywords if each.arg and isinstance(each.value, ast.Constant)
        }
        return str(WRITERS[called](NAME, *given, **named))  # type: ignore[operator]
    return NAME


@cache
def headers() -> set[tuple[str, str]]:
    """The sections that messages name, each with its place."""
    return {
        (where, header)
        for where, text in texts()
        for header in re.findall(r"\[(?:" + "|".join(SECTIONS) + r")\.[^\]\n]+\]", text)
        if text not in EXAMPLES.values()  # lines that are allowed, of links and sets of their own
    }


@cache
def commands() -> set[tuple[str, str]]:
    """The commands that messages name, each with its place."""
    return {
        (where, (found[0] or found[1]).strip().rstrip(",.:)"))
        for where, text in texts()
        for found in COMMAND.findall(text)
    }


@pytest.mark.slow
def test_a_section_that_a_message_names_is_that_of_the_link() -> None:
    for where, header in headers():
        found = tomllib.loads(f"{header}\n")
        kind = next(iter(found))
        (name,) = found[kind]
        assert name in (NAME, "NAME"), f"{where}: {header} is the section of {name!r}"


def test_a_command_that_a_message_names_is_taken() -> None:
    """Its options are known; if it is more than a name, nothing that it needs is missing."""
    for where, command in commands():
        name, *arguments = shlex.split(command.removesuffix("..."))
        known = cli.commands[name]
        options, rest, _ = known.make_parser(click.Context(known)).parse_args(list(arguments))
        for parameter in known.params if arguments and "--" in command else ():
            missing = parameter.required and parameter.name not in options
            given = isinstance(parameter, click.Argument) and (rest or options.get(parameter.name or ""))
            assert not missing or given, f"{where}: `lowwater {command}` lacks {parameter.opts[0]}"


def test_hints_were_found() -> None:
    """The patterns above find what there is: a change of wording must not empty them."""
    assert len(headers()) >= 8 and len(commands()) >= 8
    assert {"ingest", "init", "replay"} <= {command.split()[0] for _, command in commands()}
