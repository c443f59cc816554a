"""`make test-image`: builds the image of `docker/Dockerfile` without an engine, in a root of its own, and tries it.

Each instruction is done as an engine does it: commands in a chroot, with the variables and the user of their place.
Debian's own Python stands for the base image, since no registry of images is needed then. Needs root and debootstrap.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docker" / "Dockerfile"
DEBIAN = "http://deb.debian.org/debian"
BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE = """\
apt-get update -qq && apt-get install --yes -qq --no-install-recommends python3 python3-pip ca-certificates
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED && ln -s /usr/bin/python3 /usr/local/bin/python
"""
"""What makes a bare Debian 12 the stand-in for `python:3.11-slim-bookworm`: the same release and version of Python."""
AUTHORITIES = Path("/usr/local/share/ca-certificates")
"""Authorities that this machine trusts beside those of Debian."""
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PASSED = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Variables that name mirrors and proxies."""
TRIALS = {
    "user": ('[ "$(id -u)" = 1000 ] && touch /airflow/x /staging/x /captures/x && ! touch /app/x 2>/dev/null', ""),
    "package": ("lowwater --version", "lowwater "),
    "Airflow": ("airflow version", ""),
    "PostgreSQL": ("python -c 'import asyncpg, psycopg2, airflow.providers.postgres'", ""),
    "Java": ("java -version 2>&1", "17."),
    "executor": ("executor 2>&1 || true", "only Spark on Kubernetes starts this command"),
    "master": ("spark-class org.apache.spark.deploy.master.Master --help 2>&1", "--webui-port"),
    "spark": (
        "cd /staging && lowwater generate --out c --links main1 --rate 1 >/dev/null && "
        "echo 'SELECT tb, count(*) AS n FROM main1.TCP GROUP BY time/60 AS tb' > q.gsql && "
        "lowwater run q.gsql --capture main1=$(ls c/main1/* | head -1) --out o 2>&1 && cat o/q.csv",
        "tb,n",
    ),
}
"""What is tried as the user of the image, by the entry point: name -> (shell command, text in its output)."""


class ImageError(RuntimeError):
    """An instruction or a trial failed; the message has the end of its output."""


@dataclass
class Stage:
    """A root that is being built.

    Attributes:
        root: its folder.
        variables: ENV so far.
        folder: WORKDIR so far.
        user: USER so far.
        entry: ENTRYPOINT.
    """

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "root"
    entry: tuple[str, ...] = ()

    def run(self, command: str) -> str:
        """Runs a shell command in the root as the user; returns its output."""
        inside = ["env", "-i", *(f"{name}={value}" for name, value in self._environment().items())]
        become = [] if self.user == "root" else ["setpriv", f"--reuid={self.user}", "--regid=1000", "--clear-groups"]
        words = [*inside, *become, *self.entry, "sh", "-c", f"cd {shlex.quote(self.folder)} && {command}"]
        mounts = f'mount --rbind /dev "$0/dev" && mount -t proc none "$0/proc" && exec chroot "$0" {shlex.join(words)}'
        done = subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts, str(self.root)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise ImageError(f"{command}\n{done.stdout[-3000:]}")
        return done.stdout

    def _environment(self) -> Mapping[str, str]:
        named = {name: os.environ[name] for name in (*PASSED, "DEFAULT_ARTIFACT_REPOSITORY") if name in os.environ}
        trusted = dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"), BUNDLE)
        return {"PATH": BASE_PATH, "HOME": "/tmp", **named, **trusted, **self.variables}

    def copy(self, sources: Sequence[str], target: str) -> None:
        """Copies files and folders of the checkout that `.dockerignore` lets through."""
        place = self.root / os.path.join(self.folder, target).lstrip("/")
        for name in sources:
            if f"!{name}" not in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
                raise ImageError(f"COPY {name}: .dockerignore leaves it out")
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place / source.name)


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yields the instructions of a Dockerfile with their arguments, continued lines joined.

    Example:
        >>> list(instructions("# base\\nFROM a\\nRUN b \\\\\\n    && c\\n"))
        [('FROM', 'a'), ('RUN', 'b && c')]
    """
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word:
            yield word, rest.strip()


def apply(stage: Stage, word: str, rest: str) -> None:
    """Does one instruction.

    Raises:
        ImageError: it fails, or is none of those that the Dockerfile has.
    """
    if word == "RUN":
        stage.run(rest)
    elif word == "COPY":
        *sources, target = rest.split()
        stage.copy(sources, target)
    elif word == "WORKDIR":
        stage.folder = rest
        (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
    elif word == "ENV":
        stage.variables |= dict(part.split("=", 1) for part in shlex.split(rest))
    elif word == "USER":
        stage.user = rest
    elif word == "ENTRYPOINT":
        stage.entry = tuple(re.findall(r'"([^"]*)"', rest))
    elif word not in ("ARG", "FROM", "CMD"):
        raise ImageError(f"{word}: no such instruction is known here")


def main() -> int:
    """Builds the image and tries it; returns the exit code."""
    if os.geteuid() or shutil.which("debootstrap") is None:
        print("make test-image needs root and debootstrap: apt-get install debootstrap", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="lowwater-image-") as folder:
        stage = Stage(Path(folder) / "root")
        try:
            _timed("base: Debian 12 with its Python", lambda: _base(stage))
            for word, rest in instructions(FILE.read_text(encoding="utf-8")):
                _timed(f"{word} {rest[:80]}", lambda word=word, rest=rest: apply(stage, word, rest))  # type: ignore[misc]
            stage.folder = "/staging"
            for name, (command, text) in TRIALS.items():
                said = stage.run(command)
                if text not in said:
                    raise ImageError(f"{name}: {command}\nsays no {text!r}:\n{said[-2000:]}")
                print(f"  {name}: {said.strip().splitlines()[-1][:100] if said.strip() else 'well'}", flush=True)
        except ImageError as error:
            print(f"failed: {error}", file=sys.stderr)
            return 1
    print("every instruction of docker/Dockerfile ran, and what it made works")
    return 0


def _base(stage: Stage) -> None:
    command = ["debootstrap", "--variant=minbase", "bookworm", str(stage.root), DEBIAN]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise ImageError(done.stdout[-2000:])
    shutil.copy("/etc/resolv.conf", stage.root / "etc" / "resolv.conf")
    # As an engine writes it: Spark looks up the address of the machine's own name.
    (stage.root / "etc" / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n", encoding="utf-8")
    for line in BASE.splitlines():
        stage.run(line)
    if AUTHORITIES.is_dir():  # a proxy of this machine may sign with its own
        shutil.copytree(AUTHORITIES, stage.root / str(AUTHORITIES).lstrip("/"), dirs_exist_ok=True)
        stage.run("update-ca-certificates")


def _timed(what: str, work: object) -> None:
    begin = time.monotonic()
    work()  # type: ignore[operator]
    print(f"  {time.monotonic() - begin:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
