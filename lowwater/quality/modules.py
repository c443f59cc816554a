"""The Python that the settings of a lake name: where it lies, and that this machine trusts it. Nothing of it runs here.

Modules with expectations of people are run by the process that judges rows, and by a project of Great Expectations that
is opened; the files of functions by whoever runs intervals.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath

from lowwater import caches
from lowwater.config import section_of
from lowwater.errors import ConfigError
from lowwater.limits import SUITE_BYTES

TRUSTED = "LOWWATER_TRUSTED_MODULES"
"""The variable that names the folders of modules that may run on this machine, separated as in PATH."""


@dataclass(frozen=True)
class Modules:
    """A folder of Python modules with expectations."""

    folder: str  # absolute
    digest: str  # of the names and the content of the modules; empty where they cannot be read


def modules_of(folder: str) -> Modules | None:
    """Returns the modules of a folder; None where the settings name none."""
    if not folder:
        return None
    said = sha256()
    try:
        files = files_of(Path(folder))
        for file in files:
            with file.open("rb") as opened:  # one that is larger is refused
                said.update(f"{file.name}\0".encode() + sha256(opened.read(SUITE_BYTES + 1)).digest())
    except OSError:
        return Modules(folder, "")
    return Modules(folder, said.hexdigest() if files else "")


def files_of(folder: Path) -> list[Path]:
    """Returns the modules of a folder, in order. Raises OSError if it cannot be read."""
    return sorted(file for file in folder.iterdir() if file.suffix == ".py" and file.is_file())


def require_trusted_files(query_set: str, files: Iterable[Path]) -> None:
    """Checks that the Python files of functions, which the settings of a lake name for a query set, may run: whoever
    uses this machine has said so, and no other user can change them. Raises ConfigError if they may not."""
    for folder in dict.fromkeys(file.parent for file in files):
        named = f"{section_of(query_set, of='query_sets')} functions"
        _require_allowed(named, folder, "intervals run")
        try:
            others = caches.written_by_others(folder, group=True)
        except OSError:
            continue  # whoever reads the file says so
        if others:
            raise ConfigError(
                f"{named} names Python in {folder}, which other users can write, so it is not run",
                f"give it and its files to your user, with a mode as 0755: chmod -R go-w {folder}",
            )


def _require_allowed(named: str, folder: Path, where: str) -> None:
    trusted = [Path(each).resolve() for each in os.environ.get(TRUSTED, "").split(os.pathsep) if each]
    if folder.resolve() not in trusted:
        raise ConfigError(
            f"{named} names {folder}, whose Python nobody has allowed to run on this machine",
            f"look at it, then allow it where {where}: export {TRUSTED}={folder}",
        )


def require_trusted(modules: Modules, lake: PurePath | None) -> None:
    """Checks that modules may run: whoever uses this machine has said so, and no lake can bring or change them.
    Raises ConfigError if they may not."""
    folder, named = Path(modules.folder), "[suites] modules"
    if lake is not None and isinstance(lake, Path) and folder.resolve().is_relative_to(lake.resolve()):
        raise ConfigError(
            f"{named} names {folder}, which lies in the lake: code in a lake is not run",
            "put the folder elsewhere, and name it there",
        )
    _require_allowed(named, folder, "audits run")
    try:
        large = next((file for file in files_of(folder) if file.stat().st_size > SUITE_BYTES), None)
        below = [each for each in folder.iterdir() if each.name.isidentifier() and each.is_dir()]
        packages = [each for each in below if each.name != "__pycache__"]
        others = any(map(caches.written_by_others, [folder, *below]))
    except OSError as error:
        raise ConfigError(
            f"{named} names {folder}, which cannot be read: {error.strerror}", "name the folder of the modules"
        ) from None
    if others:
        raise ConfigError(
            f"{named} names {folder}, which other users can write, so it is not run",
            f"give it and its files to your user, with a mode as 0755: chmod -R go-w {folder}",
        )
    if packages:  # what their modules hold would be in no digest
        raise ConfigError(
            f"{packages[0]}: is a package, and the modules of {named} are single files",
            f"put what it has into modules in {folder}, beside each other, and remove it",
        )
    if large is not None:
        raise ConfigError(f"{large}: is larger than {SUITE_BYTES:,} bytes", "a module of expectations is a small one")
