"""Files that hold other files, or sheets: none is read, and each is told by what it is and how to get at its contents.

Below the readers and `tables.sniffing`: whoever meets such a file says the same of it.
"""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import NamedTuple


class Archive(NamedTuple):
    """What a file is that is no file of records itself."""

    what: str  # for messages: `a zip archive`
    command: str  # unpacks `{file}` into `{folder}`; empty where no command does

    @property
    def holds_files(self) -> bool:
        """Whether it holds files, which may be captures; False for sheets."""
        return bool(self.command)

    def remedy(self, path: PurePath | str) -> str:
        """The hint for the archive with this path: it is unpacked into its folder."""
        if not self.command:
            return "save its sheet as CSV in UTF-8, by the program that made it"
        place = PurePath(path)
        file, folder = shlex.quote(str(path)), shlex.quote(str(place.parent))
        return f"unpack it: `{self.command.format(file=file, folder=folder)}`"


HEAD = 512
"""Bytes from the begin of a file, decompressed, that tell an archive."""

_TAR = Archive("a tar archive", "tar -xf {file} -C {folder}")
_ZIP = Archive("a zip archive", "unzip {file} -d {folder}")
_BY_MAGIC = {
    b"PK\x05\x06": _ZIP,
    b"PK\x07\x08": _ZIP,
    b"PK\x03\x04": _ZIP,
    b"7z\xbc\xaf\x27\x1c": Archive("a 7z archive", "7z x {file} -o{folder}"),
    b"Rar!\x1a\x07": Archive("a rar archive", "unrar x {file} {folder}/"),
    b"BZh": Archive("a bzip2 file", "bunzip2 {file}"),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": Archive("an old Excel workbook (XLS), or another document of Office", ""),
}
_DOCUMENTS = {
    b"[Content_Types].xml": Archive("an Excel workbook (XLSX), or another document of Office", ""),
    b"application/vnd.oasis.opendocument": Archive("an OpenDocument file, such as a sheet (ODS)", ""),
}
"""Zip archives by what the name or the content of their first member has."""


def archive_of(head: bytes) -> Archive | None:
    """Returns what a file is, from its first HEAD bytes, decompressed; None for no archive and no document.

    Example:
        >>> archive_of(bytes.fromhex("377abcaf271c")).what
        'a 7z archive'
    """
    if head[257:262] == b"ustar":
        return _TAR
    archive = next((archive for magic, archive in _BY_MAGIC.items() if head.startswith(magic)), None)
    if archive is _ZIP:
        return next((document for sign, document in _DOCUMENTS.items() if sign in head[:HEAD]), _ZIP)
    return archive
