"""Checks what must hold before a release: `make release-check`. Changes nothing, and names a command for what does not.

The checks that take minutes or a network (wheels of all platforms, rules, types, site, tests, the matrix, known
vulnerabilities) are only run with `--run`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from lowwater import __version__  # noqa: E402 - after the path of the checkout
from lowwater.extras import EXTRAS  # noqa: E402
from scripts.dependencies import LOCKS, PAGE, licence_page, packages  # noqa: E402

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
RELEASED = re.compile(r"(\d+\.\d+\.\d+), (\d{4}-\d{2}-\d{2})")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")
"""Platforms of docs/installation.md, as uv names them."""

MACOS = "12.0"
BUILT = ("pyspark",)
"""Packages that come as source for every platform: pure Python, built at installation."""

LONG = ("lint", "types", "docs", "test-all", "test-packages", "audit")
"""Targets of the Makefile that `--run` runs."""


@dataclass(frozen=True)
class Check:
    """A check: what must hold, how it is found out (an empty text if it holds), and the command that mends it."""

    name: str
    problem: Callable[[], str]
    mend: str


def git(*words: str) -> str:
    """Returns the output of git in the checkout."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def untidy() -> str:
    """Names files that are not committed."""
    changed = git("status", "--porcelain").splitlines()
    return f"{len(changed)} files are not committed: {changed[0].strip()} ..." if changed else ""


def undated() -> str:
    """Says what is wrong with the newest section of the changelog."""
    newest = HEADING.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))[0]
    match = RELEASED.fullmatch(newest)
    if match is None:
        return f"the newest section of CHANGELOG.md is {newest!r}, not '{__version__}, <date>'"
    return "" if match[1] == __version__ else f"the newest section is of {match[1]}, the package {__version__}"


def tagged() -> str:
    """Says whether the version has a tag already, on another commit."""
    tag = f"v{__version__}"
    if tag not in git("tag", "--list").split():
        return ""
    return "" if git("rev-parse", f"{tag}^{{commit}}") == git("rev-parse", "HEAD") else f"{tag} is another commit"


def unlocked() -> str:
    """Compares the locks of the extras with that of development."""
    tested = dict(re.findall(r"^([a-z0-9._-]+)==([^\s\\;]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    absent = [name for name in ("core", *EXTRAS, "all") if not (LOCKS / f"{name}.txt").is_file()]
    if absent:
        return f"no lock of {', '.join(absent)}"
    other = {one.name for one in packages("all") if tested.get(one.name, one.version) != one.version}
    return f"requirements/ and requirements.txt disagree on {', '.join(sorted(other))}" if other else ""


def unlicensed() -> str:
    """Says whether docs/licences.md is that of the locks."""
    return "" if PAGE.read_text(encoding="utf-8") == licence_page() else "docs/licences.md is not that of the locks"


def unbuilt() -> str:
    """Builds wheel and source distribution, and looks at their metadata."""
    uv = Path(sys.prefix) / "bin" / "uv"
    options = ["--quiet", "--offline", "--no-build-isolation", "--python", sys.executable]
    with tempfile.TemporaryDirectory(prefix="lowwater-release-") as folder:
        done = subprocess.run(
            [str(uv), "build", *options, "--out-dir", folder, str(ROOT)], capture_output=True, text=True, check=False
        )
        names = sorted(path.name for path in Path(folder).iterdir() if not path.name.startswith("."))
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    expected = [f"lowwater-{__version__}-py3-none-any.whl", f"lowwater-{__version__}.tar.gz"]
    return "" if names == expected else f"built {', '.join(names)}"


def unsupported() -> str:
    """Compares the Pythons of the metadata with those that `lowwater doctor` admits."""
    from lowwater.cli.doctor import PYTHONS

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {text.rpartition(" ")[2] for text in project["classifiers"] if re.search(r"Python :: 3\.\d+$", text)}
    admitted = {"{}.{}".format(*version) for version in PYTHONS}
    return "" if named == admitted else f"classifiers name {sorted(named)}, doctor admits {sorted(admitted)}"


def without_wheels(extra: str = "all") -> str:
    """Asks the index whether each locked package has a wheel for each platform and Python; installs nothing."""
    from lowwater.cli.doctor import PYTHONS

    uv = Path(sys.prefix) / "bin" / "uv"
    options = ["--quiet", "--dry-run", "--python", sys.executable, "--only-binary", ":all:"]
    options += [word for name in BUILT for word in ("--no-binary", name)]
    problems = []
    with tempfile.TemporaryDirectory(prefix="lowwater-release-") as folder:
        for platform, version in product(PLATFORMS, PYTHONS):
            words = ["--target", folder, "--python-platform", platform, "--python-version", "{}.{}".format(*version)]
            command = [
                str(uv),
                "pip",
                "install",
                *options,
                *words,
                "--require-hashes",
                "-r",
                str(LOCKS / f"{extra}.txt"),
            ]
            environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": MACOS}
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                said = re.search(r"\S+==\S+ has no usable wheels", done.stderr)
                reason = said[0] if said else done.stderr.strip().partition("\n")[0]
                problems.append(f"{platform}, Python {words[-1]}: {reason}")
    return "; ".join(problems)


def failed(target: str) -> str:
    """Runs a target of the Makefile, with its output."""
    code = subprocess.run(["make", target], cwd=ROOT, check=False).returncode
    return f"make {target} ended with {code}" if code else ""


CHECKS = [
    Check("everything is committed", untidy, "git commit"),
    Check("the changelog has the version and a date", undated, "edit CHANGELOG.md and lowwater/__init__.py"),
    Check("the version is new", tagged, "raise __version__ in lowwater/__init__.py"),
    Check("locks are those that were tested", unlocked, "make lock"),
    Check("licences are those of the locks", unlicensed, "make licences"),
    Check("metadata name the supported Pythons", unsupported, "edit the classifiers in pyproject.toml"),
    Check("wheel and source distribution are built", unbuilt, "make wheel"),
]


def main() -> int:
    """Entry of `python scripts/release.py`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help=f"also ask for wheels, and run make {', '.join(LONG)}")
    long = [Check(f"make {target}", lambda target=target: failed(target), f"make {target}") for target in LONG]  # type: ignore[misc]
    problems = 0
    wheels = Check("every package has a wheel for each platform", without_wheels, "edit docs/installation.md")
    for check in CHECKS + ([wheels, *long] if parser.parse_args().run else []):
        problem = check.problem()
        problems += bool(problem)
        print(
            f"{'not ok' if problem else 'ok':6}  {check.name}"
            + (f": {problem}\n        {check.mend}" if problem else "")
        )
    if problems:
        return 1
    print(f"then: git tag v{__version__} && git push origin v{__version__} && make wheel && uv publish dist/*")
    return 0


if __name__ == "__main__":
    sys.exit(main())
