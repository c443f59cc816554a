"""Takes the scripts of the site out of npm's packages: `python -m website.fetch var/website/scripts`.

`npm pack` brings the packages; their digests are those of scripts.json. With a folder of packages as second argument
nothing is fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

SCRIPTS = Path(__file__).with_name("scripts.json")


def unpack(package: Path, integrity: str, member: str) -> bytes:
    """Returns a file of a package.

    Args:
        package: the .tgz.
        integrity: `sha512-` and the digest in base64, as npm writes it.
        member: path in the package.

    Raises:
        SystemExit: the package is another one.
    """
    content = package.read_bytes()
    digest = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if digest != integrity:
        raise SystemExit(f"{package.name} is {digest}, not {integrity} as {SCRIPTS.name} says")
    with tarfile.open(package) as archive:
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def fetch(out: Path, packages: Path | None = None) -> None:
    """Writes NAME.js for each script.

    Args:
        out: folder of the scripts.
        packages: folder of packages that are there already; None fetches them.
    """
    if packages is None and shutil.which("npm") is None:
        raise SystemExit(
            "npm is missing, which brings the scripts of the site once\n  hint: apt install npm, or nodejs.org"
        )
    with tempfile.TemporaryDirectory() as scratch:
        folder = packages or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        for name, pinned in json.loads(SCRIPTS.read_text(encoding="utf-8")).items():
            if packages is None:
                _pack(f"{name}@{pinned['version']}", folder)
            package = folder / f"{name}-{pinned['version']}.tgz"
            (out / f"{name}.js").write_bytes(unpack(package, pinned["integrity"], pinned["file"]))


def _pack(package: str, folder: Path) -> None:
    words = ["npm", "pack", package, "--pack-destination", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        raise SystemExit(
            f"{package} cannot be fetched: {said[0] if said else done.stderr.strip()}\n"
            "  hint: npm takes HTTPS_PROXY, and a mirror as npm_config_registry"
        )


if __name__ == "__main__":
    fetch(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
