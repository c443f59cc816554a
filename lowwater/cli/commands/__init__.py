"""The commands of the command line: one module each, whose click command has the name of the module, `_` for `-`.

This folder finds its modules itself. `lowwater --help` imports all of them, so a module imports slow packages inside
its functions. Shared options are in `cli.options`, and implementations in the modules beside this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pkgutil import iter_modules

import click


class CommandFolder(MutableMapping[str, click.Command]):
    """Mapping of the commands of this folder by name; imports a command at its first use."""

    def __init__(self) -> None:
        self._names = sorted(module.name.replace("_", "-") for module in iter_modules(__path__))
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._added:
            if name not in self._names:
                raise KeyError(name)
            module = name.replace("-", "_")
            self._added[name] = getattr(import_module(f"{__name__}.{module}"), module)
        return self._added[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __setitem__(self, name: str, command: click.Command) -> None:
        raise TypeError(f"the command {name} has no module in {__name__}")

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"the command {name} is a module of {__name__}")
