"""Which texts are one query set, and which names they may use: by options, else by the `lowwater.toml` that is near.

Between the server of the editor protocol and `checking`. Python files of users are never run: their declarations say
types and costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lowwater.config import FILE_NAME, Config, load_config
from lowwater.editor.checking import Checked, check_scripts, make_script
from lowwater.editor.knowledge import Knowledge, learn
from lowwater.editor.words import Script
from lowwater.errors import LowwaterError
from lowwater.plan.context import Context
from lowwater.plan.definitions import make_context
from lowwater.replay.job import config_links

Opened = Callable[[Path], str | None]
"""Returns the text of a file that is open in the editor; None for one that is not."""


@dataclass(frozen=True)
class Options:
    """What the command line gives for all files.

    Attributes:
        links: file of settings; None to look for one near each file.
        schemas: files with PROTOCOL blocks.
        functions: files with declarations of functions.
        params: (name, value) of parameters.
        dialect: `lowwater` or `gigascope`.
    """

    links: Path | None = None
    schemas: tuple[Path, ...] = ()
    functions: tuple[Path, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    dialect: str = "lowwater"


@dataclass(frozen=True)
class QuerySet:
    """The texts of a query set as they are now.

    Attributes:
        scripts: the texts, that of the asked file first.
        context: names that they may use.
        config: the settings.
        schemas: files of PROTOCOL blocks.
        trouble: why settings or definitions could not be read; empty if they were.
    """

    scripts: tuple[Script, ...]
    context: Context
    config: Config
    schemas: tuple[Path, ...] = ()
    trouble: str = ""

    def check(self) -> Checked:
        """Returns the mistakes of all texts."""
        return check_scripts(self.scripts, self.context, self.config)

    def learn(self) -> Knowledge:
        """Returns what is known of names."""
        return learn(self.scripts, self.context)


@dataclass(frozen=True)
class Workspace:
    """The folder that an editor has open.

    Attributes:
        options: those of the command line.
        opened: gives the texts of open files.
        root: the folder, above which no settings are looked for; None for all folders above a file.
    """

    options: Options = field(default_factory=Options)
    opened: Opened = lambda path: None
    root: Path | None = None

    def query_set(self, file: Path, text: str) -> QuerySet:
        """Returns the query set of a file.

        Args:
            file: path of the file; it need not exist.
            text: its text in the editor.
        """
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
                scripts.append(make_script(str(path), path.read_text(encoding="utf-8") if text is None else text))
            except (OSError, UnicodeDecodeError):
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
