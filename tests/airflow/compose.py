"""`docker/compose.yaml` as its services' commands and environments, for running them on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.replay.support import ROOT

FILE = ROOT / "docker" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<kind>[-?])(?P<rest>[^}]*))?\}")


@dataclass(frozen=True)
class Compose:
    """The file with its variables filled in.

    Attributes:
        data: as YAML gives it.
        names: host names and paths of the containers -> what stands for them here.
    """

    data: dict[str, Any]
    names: Mapping[str, str]

    def command(self, service: str) -> list[str]:
        """The command of a service."""
        return [self._here(part) for part in self.data["services"][service]["command"]]

    def environment(self, service: str) -> dict[str, str]:
        """The environment of a service, over that of this process.

        A container has no PYTHONPATH. A session of Spark in this process sets it, and then tasks find no listeners.
        """
        foreign = ("AIRFLOW_", "LOWWATER_", "PYSPARK_", "PYTHONPATH", "SPARK_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        own = self.data["services"][service]["environment"]
        return kept | {name: self._here(str(value)) for name, value in own.items()}

    def _here(self, text: str) -> str:
        for name, here in self.names.items():
            text = text.replace(name, here)
        return text


def load(variables: Mapping[str, str], names: Mapping[str, str] | None = None) -> Compose:
    """Reads the file; `variables` are those of `docker/.env`."""

    def value(found: re.Match[str]) -> str:
        if variables.get(found["name"]):
            return variables[found["name"]]
        assert found["kind"] == "-", f"{found['name']} has no value: {found['rest']}"
        return found["rest"]

    text = _VARIABLE.sub(value, FILE.read_text(encoding="utf-8"))
    return Compose(yaml.load(text, yaml.CSafeLoader), names or {})


def wanted() -> list[str]:
    """The variables without a default."""
    text = FILE.read_text(encoding="utf-8")
    return sorted({found["name"] for found in _VARIABLE.finditer(text) if found["kind"] == "?"})


def example() -> dict[str, str]:
    """The variables of the example, each with a secret of its own."""
    lines = (ROOT / "docker" / "example.env").read_text(encoding="utf-8").splitlines()
    return {line.partition("=")[0]: f"s{number:031x}" for number, line in enumerate(lines) if re.match(r"\w+=", line)}


def copied() -> list[Path]:
    """What the Dockerfile copies from the checkout."""
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    names = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    return [ROOT / name for name in names]
