"""Reference pages that docs/ does not have: made from the code, so that they cannot go stale.

docs/ itself has the functions, whose table comes from the catalog too (tests/docs/book.py).
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from website import protocols, settings
from website.tables import cell, code, escaped, table

ROOT = Path(__file__).parents[1]
NO_COPY = "<!-- Made by `make docs` from the code. -->\n\n"
_COLUMN = re.compile(r"""(?:_required|pa\.field)\("(\w+)".*?\)(?:,)?\s*(?:#\s*(.*))?$""")
API = {
    "lowwater": ("subscribe",),
    "lowwater.lake.results.subscription": ("Subscription", "Change"),
    "lowwater.capture": ("read", "open_capture", "ContentOptions", "CaptureReader", "CaptureFile", "CaptureSummary",
                         "Interface", "InterfaceSummary", "Malformed", "digest"),
    "lowwater_notebook": ("Lake", "Rows"),
    "lowwater.spark.jars": ("delta_options", "lake_session"),
    "lowwater.spark.session": ("build_session",),
    "lowwater.errors": ("LowwaterError", "QueryError", "CaptureError", "ConfigError", "LakeError"),
}  # fmt: skip
"""Names that documents use. Everything else in the package may change without notice."""
SUITES = {
    "links": "Links of an interval",
    "lftas": "LFTAs",
    "queries": "Queries",
    "rows": "Rows of the result",
    "skew": "Late records",
    "link_history": "Links beside earlier intervals",
    "query_history": "Queries beside earlier intervals",
}


def pages() -> dict[str, tuple[str, Callable[[], str]]]:
    """Path -> title and maker of each page."""
    return {
        "reference/command-line.md": ("Command line", command_line),
        "reference/settings.md": ("All settings", lambda: f"# All settings\n\n{NO_COPY}{settings.page()}"),
        "reference/protocols.md": ("All protocols", lambda: f"# All protocols\n\n{NO_COPY}{protocols.page()}"),
        "reference/audits.md": ("Audits", audits),
        "reference/lake.md": ("Tables of a lake", lake_tables),
        "reference/json.md": ("JSON of explain and inspect", json_schemas),
        "reference/python.md": ("Python", python_api),
    }


def command_line() -> str:
    """Every command: what it does, its arguments and options."""
    from lowwater.cli.main import cli

    parts = [f"# Command line\n\n{NO_COPY}`lowwater COMMAND --help` prints the same. Exit codes: 0 done; 1 a query,"]
    parts.append(" capture or setting is wrong, and one message says where; 2 bad usage.\n")
    context = click.Context(cli, info_name="lowwater")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts.append(_command(command, click.Context(command, info_name=name, parent=context)))
    return "".join(parts)


def _command(command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
    text = f"\n## {context.info_name}\n\n```text\n{usage}\n```\n\n{_prose(command.help or '')}\n"
    rows = []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            rows.append((code(record[0]), cell(record[1])))
    if rows:
        text += "\n" + table(("option", "meaning"), rows)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            text += _command(
                child, click.Context(child, info_name=f"{context.info_name} {name}", parent=context.parent)
            )
    return text


def _prose(text: str) -> str:
    """The help text of a command as Markdown: click's kept paragraphs become blocks of code."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == "\b":
            blocks.append(_examples(lines[1:]))
        else:
            blocks.append(escaped(" ".join(line.strip() for line in lines)))
    return "\n\n".join(blocks)


def _examples(lines: list[str]) -> str:
    """Prose lines become a paragraph, indented lines a block of commands."""
    blocks = [
        (indented, [line.strip() for line in part]) for indented, part in groupby(lines, lambda line: line[:2] == "  ")
    ]
    return "\n\n".join(
        "```sh\n{}\n```".format("\n".join(part)) if indented else escaped(" ".join(part)) for indented, part in blocks
    )


def audits() -> str:
    """Every expectation of every suite: its sentence, its severity, its meaning and its remedy."""
    parts = [
        f"# Audits\n\n{NO_COPY}Each interval is audited before it is published. A *critical* audit that fails keeps"
    ]
    parts.append(" the rows out of the tables; a *warning* lets them pass and is in the report")
    parts.append(" ([review](../docs/review.md)).\n")
    folder = ROOT / "expectations" / "suites"
    for file in sorted(folder.glob("*.json"), key=lambda path: (list(SUITES).index(path.stem), path.stem)):
        suite = json.loads(file.read_text(encoding="utf-8"))
        parts.append(f"\n## {SUITES[file.stem]}\n\nSuite `{suite['name']}`. {' '.join(suite['notes'])}\n")
        for entry in suite["expectations"]:
            parts.append(f"\n### {entry['meta']['title']}\n\n*{entry['severity']}*: {entry['description']}\n\n")
            arguments = ", ".join(f"{name} = {value}" for name, value in entry["kwargs"].items())
            parts.append(f"In Great Expectations: `{entry['type']}` ({arguments}).\n\n")
            parts.append("\n\n".join(entry["notes"]) + "\n")
    return "".join(parts)


def lake_tables() -> str:
    """Every ledger of a lake: its columns with type and meaning."""
    from lowwater.lake import layout

    comments = _comments(Path(layout.__file__))
    parts = [
        f"# Tables of a lake\n\n{NO_COPY}The published rows are in `tables/QUERY` ([results](../docs/results.md))."
    ]
    parts.append(" These tables say how they came about; all are Delta tables. An instant is in ns since 1970.\n")
    facts = ("contents", "sightings", "statements", "malformed", "violations")
    for name in (*facts, "heartbeats", "replays", "metrics", "lateness", "quality"):
        parts.append(f"\n## {name if name != 'violations' else 'skew_violations'}\n\n")
        parts.append(_columns(getattr(layout, name.upper()), comments[name.upper()]))
    parts.append(f"\n## quarantine\n\n{_columns(layout.QUARANTINE, comments['QUARANTINE'])}")
    return "".join(parts)


def _columns(schema: Any, comments: dict[str, str]) -> str:
    rows = (
        (f"`{field.name}`", str(field.type), "yes" if field.nullable else "", cell(comments.get(field.name, "")))
        for field in schema
    )
    return table(("column", "type", "NULL", "meaning"), rows)


def _comments(module: Path) -> dict[str, dict[str, str]]:
    """Name of a schema -> column -> the comment behind it."""
    comments: dict[str, dict[str, str]] = {}
    name = ""
    for line in module.read_text(encoding="utf-8").splitlines():
        if opened := re.match(r"^([A-Z]+) = pa\.schema\(", line):
            name = opened[1]
            comments[name] = {}
        elif name and (column := _COLUMN.search(line)):
            comments[name][column[1]] = column[2] or ""
    return comments


def json_schemas() -> str:
    """The objects of the two JSON formats, field by field."""
    parts = [f"# JSON of explain and inspect\n\n{NO_COPY}The schemas themselves:"]
    parts.append(" [explain.schema.json](../docs/explain.schema.json),")
    parts.append(" [inspect.schema.json](../docs/inspect.schema.json).\n")
    for name in ("explain", "inspect"):
        schema = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text(encoding="utf-8"))
        parts.append(f"\n## {schema['title'].removeprefix('lowwater ')}\n\n{schema['description']}\n\n")
        parts.append(_fields(schema, name))
        for title, part in schema["$defs"].items():
            parts.append(f"\n### {title} ({name})\n\n{part.get('description', '')}\n\n")
            parts.append(_fields(part, name) if "properties" in part else f"{_kind(part, name)}\n")
    return "".join(parts)


def _fields(part: dict[str, Any], name: str) -> str:
    needed = part.get("required", [])
    rows = (
        (f"`{key}`", _kind(value, name), "" if key in needed else "may be absent", cell(value.get("description", "")))
        for key, value in part.get("properties", {}).items()
    )
    return table(("field", "type", "", "meaning"), rows)


def _kind(part: dict[str, Any], name: str) -> str:
    """The type of a value in words, with links to objects."""
    if "$ref" in part:
        title = part["$ref"].rpartition("/")[2]
        return f"[{title}](#{title.lower()}-{name})"
    if "anyOf" in part:
        return " or ".join(_kind(option, name) for option in part["anyOf"])
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    if "enum" in part:
        return ", ".join(f"`{json.dumps(value)}`" for value in part["enum"])
    if part.get("type") == "array":
        return f"list of {_kind(part.get('items', {}), name)}"
    if isinstance(part.get("additionalProperties"), dict):
        return f"object of {_kind(part['additionalProperties'], name)}"
    kind = part.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def python_api() -> str:
    """The names that users import: signature and docstring."""
    parts = [f"# Python\n\n{NO_COPY}These names are for programs of yours. Other modules may change without notice.\n"]
    for module, names in API.items():
        parts.append(f"\n## {module}\n")
        loaded = importlib.import_module(module)
        for name in names:
            parts.extend(_documented(name, getattr(loaded, name)))
    return "".join(parts)


def _documented(name: str, value: Any) -> Iterator[str]:
    try:
        signature = _signature(value)
    except ValueError:
        signature = "(...)"
    shown = f"{name}{signature}"
    if len(shown) > 90:
        shown = re.sub(r", (?=\*?\w+: |\*,)", ",\n    ", shown).replace("(", "(\n    ", 1)
    yield f"\n### {name}\n\n```python\n{shown}\n```\n\n{_docstring(inspect.getdoc(value) or '')}\n"
    if inspect.isclass(value):
        for member, method in vars(value).items():
            text = inspect.getdoc(method)
            if not member.startswith("_") and (inspect.isfunction(method) or isinstance(method, property)) and text:
                call = "" if isinstance(method, property) else _signature(method).replace("(self, ", "(")
                yield f"\n#### {name}.{member}\n\n```python\n{member}{call.replace('(self)', '()')}\n```\n\n"
                yield _docstring(text) + "\n"


def _signature(value: Any) -> str:
    """The signature, with types as they are written and without addresses of objects."""
    text = re.sub(r"<.*? object at 0x\w+>", "...", str(inspect.signature(value)))
    return re.sub(r"(: |-> )'([^']+)'", r"\1\2", text)


def _docstring(text: str) -> str:
    """A Google docstring as Markdown: `Args` and its kin become lists, indented examples blocks of code."""
    out: list[str] = []
    section = ""
    for line in text.splitlines():
        if re.match(r"^(Args|Attributes|Raises|Returns|Yields|Example):$", line):
            section = line[:-1]
            out += ["", f"**{section}**", ""]
        elif section in ("Args", "Attributes", "Raises") and (item := re.match(r"^    (\*{0,2}\w+): (.*)$", line)):
            out.append(f"* `{item[1]}`: {escaped(item[2])}")
        elif section and line.strip() and line.startswith("        ") and section != "Example":
            out[-1] += f" {escaped(line.strip())}"
        elif line.startswith("    ") and (not section or section == "Example"):
            out.append(line if section != "Example" else f"    {line.strip()}")
        else:
            section = section if not line.strip() or line.startswith(" ") else ""
            out.append(escaped(line.strip()))
    return "\n".join(out)
