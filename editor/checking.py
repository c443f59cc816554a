"""Mistakes and notes of query texts that are being written, which texts are one set, and their canonical form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lowwater.catalog.native import NATIVE
from lowwater.config import Config, load_config
from lowwater.documents import FILE_NAME
from lowwater.errors import LowwaterError, QueryError, QueryErrors, UnsupportedError
from lowwater.gsql.parser import parse, read_text, unix_lines
from lowwater.gsql.printer import print_file
from lowwater.plan.context import Context
from lowwater.plan.definitions import make_context
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks import cost_notes, not_run
from lowwater.replay.names import config_links

from .names import Knowledge, learn
from .words import Outline, Script, without_wrong

# The mistakes are those of `lowwater check`. No Python of users is run.

ROUNDS = 4
"""Most times that texts are checked again without the statements that are wrong."""

MOST = 100
"""Most mistakes that a check of the texts gives."""

ERROR, UNSUPPORTED, NOTE = "error", "unsupported", "note"


@dataclass(frozen=True)
class Problem:
    """A mistake in a text, or a note on it.

    Attributes:
        file: name of the file.
        start: offset of the first character, in the text with `\\n` between lines.
        end: offset behind the last character.
        message: what is wrong.
        hint: what to do; empty for nothing.
        kind: ERROR, UNSUPPORTED or NOTE.
    """

    file: str
    start: int
    end: int
    message: str
    hint: str
    kind: str

    @property
    def text(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


@dataclass(frozen=True)
class Checked:
    """What became of a check."""

    problems: tuple[Problem, ...]  # in the order of the texts
    plan: Plan | None = None  # the plan; None if there is an error


def make_script(file: str, text: str) -> Script:
    """Returns a text with the line ends of Unix and without a byte order mark, as the parser sees it."""
    return Script(file, unix_lines(text))


def check_scripts(scripts: Sequence[Script], context: Context, config: Config, libraries: bool = True) -> Checked:
    """Plans texts as one query set, and gives every mistake.

    A statement that is not whole hides no mistake of others: they are checked again without it.

    Args:
        config: the settings, for notes on cost.
        libraries: whether queries may read libraries in the folders of the texts and above them.
    """
    first = _checked_once(scripts, context, config, libraries)
    problems, left = [*first.problems], without_wrong(scripts, first.places)
    for _ in range(ROUNDS):
        if not left:
            break
        again = _checked_once(left, context, config, libraries)
        problems += [each for each in again.problems if each.kind != NOTE and each not in problems]
        left = without_wrong(left, again.places)
    order = {script.file: at for at, script in enumerate(scripts)}
    return Checked(tuple(sorted(problems, key=lambda each: (order[each.file], each.start))), first.plan)


@dataclass(frozen=True)
class _Once(Checked):
    """A check without repetition; `places` are file, line and column of its mistakes."""

    places: tuple[tuple[str, int, int], ...] = ()


def _checked_once(scripts: Sequence[Script], context: Context, config: Config, libraries: bool) -> _Once:
    folders = tuple(dict.fromkeys(Path(script.file).parent for script in scripts if script.file)) if libraries else ()
    try:
        plan = plan_texts([(each.file, each.source) for each in scripts], context.links, None, context, folders)
        plan = replace(plan, notes=(*plan.notes, *not_run(plan), *cost_notes(plan, config.replay.copies)))
    except QueryError as refusal:
        errors = (refusal.errors if isinstance(refusal, QueryErrors) else (refusal,))[:MOST]
        places = tuple((error.file, error.line, error.column) for error in errors)
        return _Once(tuple(_problem(scripts, error) for error in errors), None, places)
    except (LowwaterError, OSError, UnicodeDecodeError) as error:  # of the set, or of a file that it reads
        hint = error.hint if isinstance(error, LowwaterError) else ""
        message = error.message if isinstance(error, LowwaterError) else str(error)
        return _Once((Problem(scripts[0].file, *scripts[0].extent(1, 1), message, hint, ERROR),))
    return _Once(tuple(_note(scripts, plan, note.query, str(note.text), note.place) for note in plan.notes), plan)


def _problem(scripts: Sequence[Script], error: QueryError) -> Problem:
    kind = UNSUPPORTED if isinstance(error, UnsupportedError) else ERROR
    for script in scripts:
        if script.file == error.file:
            return Problem(script.file, *script.extent(error.line, error.column), error.message, error.hint, kind)
    # A file of a library, or of PROTOCOL blocks: it is not open.
    where = f"{error.file}:{error.line}:{error.column}: " if error.file else ""
    return Problem(scripts[0].file, *scripts[0].extent(1, 1), where + error.message, error.hint, kind)


def _note(scripts: Sequence[Script], plan: Plan, query: str, text: str, place: tuple[int, int]) -> Problem:
    """A note stands under its place, else under the name of its query, else under the first word of it."""
    files = {each.name: each.file for each in (*plan.queries, *plan.internal)}
    script = next((each for each in scripts if each.file == files.get(query)), scripts[0])
    if place[0]:
        return Problem(script.file, *script.extent(*place), text, "", NOTE)
    for statement in script.statements:
        if statement.name == query and statement.code:
            word = statement.name_at or statement.code[0]
            return Problem(script.file, word.start, word.end, text, "", NOTE)
    return Problem(script.file, *script.extent(1, 1), text, "", NOTE)


# Which texts are one query set, and which names they may use: by options, else by the `lowwater.toml` that is near.
# Python files of users are never run: their declarations say types and costs.

Opened = Callable[[Path], str | None]
"""Returns the text of a file that is open in the editor; None for one that is not."""


@dataclass(frozen=True)
class Options:
    """What the command line gives for all files."""

    links: Path | None = None  # file of settings; None to look for one near each file
    schemas: tuple[Path, ...] = ()  # files with PROTOCOL blocks
    functions: tuple[Path, ...] = ()  # files with declarations of functions
    params: tuple[tuple[str, str], ...] = ()  # (name, value) of parameters
    dialect: str = "lowwater"  # `lowwater` or `gigascope`


@dataclass(frozen=True)
class QuerySet:
    """The texts of a query set as they are now."""

    scripts: tuple[Script, ...]  # the texts, that of the asked file first
    context: Context  # names that they may use
    config: Config  # the settings
    schemas: tuple[Path, ...] = ()  # files of PROTOCOL blocks
    trouble: str = ""  # why settings or definitions could not be read; empty if they were

    def check(self) -> Checked:
        return check_scripts(self.scripts, self.context, self.config)

    def learn(self) -> Knowledge:
        return learn(self.scripts, self.context)


@dataclass(frozen=True)
class Workspace:
    """The folder that an editor has open."""

    options: Options = field(default_factory=Options)  # those of the command line
    opened: Opened = lambda path: None  # gives the texts of open files
    root: Path | None = None  # the folder, above which no settings are looked for; None for all folders above a file

    def query_set(self, file: Path, text: str) -> QuerySet:
        trouble = ""
        settings = self.options.links or self._near(file)
        config = Config()
        try:
            config = load_config(path=settings) if settings else config
        except (LowwaterError, OSError) as error:
            trouble = str(error)
        name, others = _set_of(config, file)
        section = config.query_sets.get(name)
        links = config_links(config, sorted(config.links) if settings and config.links else None)
        schemas = [*config.link_schemas, *(map(Path, section.schemas) if section else ()), *self.options.schemas]
        functions = [*(map(Path, section.functions) if section else ()), *self.options.functions]
        params = {**(section.params if section else {}), **dict(self.options.params)}
        distinct = tuple({path.resolve(): path for path in schemas}.values())
        folders = config.files.folders
        try:
            context = make_context(links, distinct, functions, params, self.options.dialect, folders, python=False)
        except (LowwaterError, OSError) as error:
            trouble = trouble or str(error)
            context = Context(links=links, params=params, dialect=self.options.dialect)
        scripts = (make_script(str(file), text), *self._texts(others))
        return QuerySet(scripts, context, config, distinct, trouble)

    def _texts(self, files: Sequence[Path]) -> list[Script]:
        scripts = []
        for path in files:
            text = self.opened(path)
            try:
                scripts.append(make_script(str(path), read_text(path) if text is None else text))
            except LowwaterError:
                continue  # the check of a run names it; here the other files are of use without it
        return scripts

    def _near(self, file: Path) -> Path | None:
        for folder in file.parents:
            if (folder / FILE_NAME).is_file():
                return folder / FILE_NAME
            if folder == self.root:
                return None
        return None


def _set_of(config: Config, file: Path) -> tuple[str, list[Path]]:
    """Returns the name of the query set of a file by the settings, and the other files of the set."""
    for name, section in config.query_sets.items():
        paths = [Path(each) for each in section.files]
        resolved = [path.resolve() for path in paths]
        if file.resolve() in resolved:
            return name, [path for path in paths if path.resolve() != file.resolve()]
    return file.stem, []


# The canonical form. A statement with a mistake, or with a comment inside of it, stays as it is written: the printer
# knows no comments.


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
