"""Says what an installation of Lowwater is made of: a bill of materials, licences, known vulnerabilities.

`make bill` writes var/bill.json (CycloneDX 1.5), `make licences` docs/licences.md, and `make audit` asks a database
of vulnerabilities. The locks in `requirements/` say which packages; their metadata in this environment say the licence.
Only `audit` needs a network.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from lowwater import __version__
from lowwater.extras import EXTRAS
from lowwater.spark.jars import NEEDED, VERSION

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
PAGE = ROOT / "docs" / "licences.md"
AUDITOR = "pip-audit==2.10.1"
UNKNOWN, ELSEWHERE = "not stated", "not installed here"
NOT_AUDITED = 2
_PIN = re.compile(
    r"^([a-z0-9][a-z0-9._-]*)==([^\s\\;]+)(?: *; *([^\\\n]+?))? *\\?\n((?:    --hash=.*\n)*)", re.MULTILINE
)
_CLASSIFIER = "License :: OSI Approved :: "

HEAD = """# Licences

Lowwater is licensed under the [Apache License 2.0](../LICENSE). Its wheel holds no code of others. An installation also
has the packages of its extras, under the licences that each states; `make licences` writes this page from the locks in
`requirements/`. PySpark brings the jars of Spark, with their licences in its folder `licenses`.

"""


@dataclass(frozen=True)
class Package:
    """A locked package.

    Attributes:
        marker: condition of the environment under which it is installed; empty for everywhere.
        hashes: sha256 of each of its files, hex.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]

    @property
    def licence(self) -> str:
        """The licence that its metadata state in this environment, on one line."""
        try:
            stated = metadata(self.name)
        except PackageNotFoundError:
            return ELSEWHERE
        if stated.get("License-Expression"):
            return str(stated["License-Expression"])
        trove = [text for text in stated.get_all("Classifier") or () if text.startswith(_CLASSIFIER)]
        named = (stated.get("License") or "").strip().splitlines()
        if trove:
            return " and ".join(text.removeprefix(_CLASSIFIER) for text in trove)
        return named[0] if named and len(named[0]) < 60 else UNKNOWN


def packages(lock: str) -> list[Package]:
    """Reads the lock of an extra, of `core` or of `all`."""
    text = (LOCKS / f"{lock}.txt").read_text(encoding="utf-8")
    return [
        Package(name, version, marker or "", tuple(re.findall(r"sha256:([0-9a-f]{64})", hashes)))
        for name, version, marker, hashes in _PIN.findall(text)
    ]


def bill() -> dict[str, Any]:
    """Returns the bill of materials of `lowwater[all]`, the same for the same locks."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "lowwater",
                "name": "lowwater",
                "version": __version__,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/lowwater@{__version__}",
            }
        },
        "components": [
            *map(_component, packages("all")),
            *(_jar(name, VERSION, digest) for name, digest in NEEDED.items()),
        ],
    }


def _component(package: Package) -> dict[str, Any]:
    purl = f"pkg:pypi/{package.name}@{package.version}"
    component: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": package.name, "version": package.version}
    if package.licence not in (UNKNOWN, ELSEWHERE):
        component["licenses"] = [{"license": {"name": package.licence}}]
    if package.marker:
        component["properties"] = [{"name": "lowwater:marker", "value": package.marker}]
    # A package has a file for each platform, each of which is a distribution of its own.
    component["externalReferences"] = [
        {
            "type": "distribution",
            "url": f"https://pypi.org/project/{package.name}/{package.version}/#files",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for digest in package.hashes
    ]
    return {**component, "purl": purl}


def _jar(name: str, version: str, digest: str) -> dict[str, Any]:
    purl = f"pkg:maven/io.delta/{name}@{version}"
    hashes = [{"alg": "SHA-256", "content": digest}]
    licences = [{"license": {"id": "Apache-2.0"}}]
    named = {"type": "library", "bom-ref": purl, "group": "io.delta", "name": name, "version": version}
    return {**named, "hashes": hashes, "licenses": licences, "purl": purl}


def licence_page() -> str:
    """Returns the text of docs/licences.md."""
    users = {lock: {package.name for package in packages(lock)} for lock in ("core", *EXTRAS)}
    return HEAD + "".join(f"{line}\n" for line in _table(users))


def _table(users: dict[str, set[str]]) -> Iterator[str]:
    yield "| package | version | licence | comes with |"
    yield "| --- | --- | --- | --- |"
    for package in packages("all"):
        extras = [extra for extra in EXTRAS if package.name in users[extra]]
        comes = "everything" if package.name in users["core"] else ", ".join(extras)
        yield f"| {package.name} | {package.version} | {package.licence} | {comes} |"
    for name in NEEDED:
        yield f"| {name} (jar) | {VERSION} | Apache-2.0 | fetched by `lowwater doctor --prepare` |"


def audit(lock: str) -> int:
    """Prints the known vulnerabilities of a lock.

    Returns:
        0 without any, 1 with some, `NOT_AUDITED` if the database was not asked about every package.
    """
    uv = Path(sys.prefix) / "bin" / "uv"
    command = [uv, "tool", "run", "--quiet", "--python", sys.executable, "--from", AUDITOR, "pip-audit"]
    options = ["--format", "json", "--progress-spinner", "off", "--disable-pip", "--require-hashes"]
    done = subprocess.run(
        [*map(str, command), *options, "-r", str(LOCKS / f"{lock}.txt")], capture_output=True, text=True, check=False
    )
    try:
        answers = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        return _unaudited(lock, len(packages(lock)), f"pip-audit: {last}")
    for answer in answers:
        for flaw in answer.get("vulns", ()):
            fixed = ", ".join(flaw["fix_versions"]) or "no version"
            print(f"{answer['name']} {answer['version']}: {flaw['id']}, fixed in {fixed}")
    skipped = [answer for answer in answers if "skip_reason" in answer]
    if skipped:
        return _unaudited(lock, len(skipped), skipped[0]["skip_reason"])
    flawed = sum(bool(answer["vulns"]) for answer in answers)
    print(f"{lock}: {len(answers)} packages, {flawed} with known vulnerabilities")
    return int(flawed > 0)


def _unaudited(lock: str, count: int, reason: str) -> int:
    print(f"error: {lock}: {count} packages were not audited: {reason}", file=sys.stderr)
    print(
        "  hint: the database is asked at https://pypi.org/pypi/<package>/<version>/json, which a mirror of packages "
        "may not have: run this where pypi.org is reachable, or set HTTPS_PROXY",
        file=sys.stderr,
    )
    return NOT_AUDITED


def main() -> int:
    """Entry of `python scripts/dependencies.py`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=["bill", "licences", "audit"])
    parser.add_argument("--lock", default="all", choices=sorted(path.stem for path in LOCKS.glob("*.txt")))
    asked = parser.parse_args()
    if asked.task == "audit":
        return audit(asked.lock)
    if asked.task == "licences":
        PAGE.write_text(licence_page(), encoding="utf-8")
        print(PAGE.relative_to(ROOT))
        return 0
    path = ROOT / "var" / "bill.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(bill(), indent=2) + "\n", encoding="utf-8")
    print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
