"""Takes scripts out of npm's packages: `python -m website.fetch var/website/scripts`.

`npm pack` brings the packages; their digests are those of scripts.json, the scripts of the site. `--pins` names another
file of this form, such as that of the tests; with `--packages`, a folder of packages, nothing is fetched.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import shutil
import subprocess
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
        raise SystemExit(f"{package.name} is {digest}, not {integrity} as its pin says")
    with tarfile.open(package) as archive:
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


def fetch(out: Path, packages: Path | None = None, pins: Path = SCRIPTS) -> None:
    """Writes NAME.js for each script.

    Args:
        out: folder of the scripts.
        packages: folder of packages that are there already; None fetches them.
        pins: file with version, digest and path of each script.
    """
    if packages is None and shutil.which("npm") is None:
        raise SystemExit("npm is missing, which brings the scripts once\n  hint: apt install npm, or nodejs.org")
    with tempfile.TemporaryDirectory() as scratch:
        folder = packages or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        for name, pinned in json.loads(pins.read_text(encoding="utf-8")).items():
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--pins", type=Path, default=SCRIPTS)
    chosen = parser.parse_args()
    fetch(chosen.out, chosen.packages, chosen.pins)
