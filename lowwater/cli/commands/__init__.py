"""The commands of the command line: a module for each family of them.

`lowwater --help` imports all of them, so a module imports slow packages inside its functions. Shared options are in
`cli.options`, and implementations in the modules beside this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import click

from lowwater import extras

FAMILIES = {
    "audits": ("expect", "gx", "report", "skew"),
    "captures": ("export", "ingest", "init", "inspect", "set-aside"),
    "intervals": ("accept", "backfill", "log", "plan", "replay", "status", "try", "watch", "why"),
    "operation": (
        "backup",
        "doctor",
        "erase",
        "maintain",
        "metrics",
        "restore",
        "serve",
        "traces",
        "upgrade",
        "verify",
    ),
    "names": ("move", "rename", "retire"),
    "results": ("diff", "evidence", "history", "rollback", "rows", "sql", "streams", "tail"),
    "texts": ("ask", "check", "cookbook", "explain", "run"),
}
"""Modules of this folder and their commands."""

BESIDE = {"lowwater_editor": "lsp", "lowwater_generator": "generate"}
"""Packages beside this one, and the command of the module `command` of each. One that is not there has none."""


class CommandFolder(MutableMapping[str, click.Command]):
    """Mapping of the commands of this folder by name; imports a module at the first use of one of its commands."""

    def __init__(self) -> None:
        modules = [(name, f"{__name__}.{module}") for module, names in FAMILIES.items() for name in names]
        modules += [(name, f"{package}.command") for package, name in BESIDE.items() if find_spec(package)]
        self._modules = dict(sorted(modules))
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            module = import_module(self._modules[name])
            found = [each for each in vars(module).values() if isinstance(each, click.Command)]
            self._added |= {each.name or "": _without_pandas(each) for each in found}
        return self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError(f"the command {name} is of no module in {__name__}")

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"the command {name} is of a module in {__name__}")


def _without_pandas(command: click.Command) -> click.Command:
    """No rows of a command are pandas' own."""
    if (work := command.callback) is None:
        return command

    @wraps(work)
    def begun(*args: Any, **kwargs: Any) -> Any:
        extras.hide_pandas()
        return work(*args, **kwargs)

    command.callback = begun
    return command
