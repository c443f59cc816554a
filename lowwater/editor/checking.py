"""Mistakes and notes of query texts that are being written, each with its range.

Between `words` and the planner: the mistakes are those of `lowwater check`. No Python of users is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lowwater.config import Config
from lowwater.editor.words import Script, without_wrong
from lowwater.errors import LowwaterError, QueryError, QueryErrors, UnsupportedError
from lowwater.gsql.parser import unix_lines
from lowwater.plan.context import Context
from lowwater.plan.queryset import Plan, plan_texts
from lowwater.replay.checks.affordable import cost_notes
from lowwater.replay.checks.capabilities import not_run

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
        """Message and hint."""
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


@dataclass(frozen=True)
class Checked:
    """What became of a check.

    Attributes:
        problems: in the order of the texts.
        plan: the plan; None if there is an error.
    """

    problems: tuple[Problem, ...]
    plan: Plan | None = None


def make_script(file: str, text: str) -> Script:
    """Returns a text with the line ends of Unix and without a byte order mark, as the parser sees it."""
    return Script(file, unix_lines(text))


def check_scripts(scripts: Sequence[Script], context: Context, config: Config, libraries: bool = True) -> Checked:
    """Plans texts as one query set, and gives every mistake.

    A statement that is not whole hides no mistake of others: they are checked again without it.

    Args:
        scripts: the texts.
        context: names that queries may use.
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
