"""The commands: a module for each, with the click command under the module's name, found by this folder.

Below `cli.main`. A module here imports what is slow inside its functions: `lowwater --help` imports them all. What
several commands share stands beside the folder: options in `cli.options`, the rest in modules of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pkgutil import iter_modules

import click


class CommandFolder(MutableMapping[str, click.Command]):
    """The commands of this folder by name, each imported when somebody asks for it."""

    def __init__(self) -> None:
        self._names = sorted(module.name for module in iter_modules(__path__))
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            if name not in self._names:
                raise KeyError(name)
            self._added[name] = getattr(import_module(f"{__name__}.{name}"), name)
        return self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError(f"the command {name} has no module in {__name__}")

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"the command {name} is a module of {__name__}")
