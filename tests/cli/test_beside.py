"""Packages beside the core: without one of them the rest works, and its command is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

ABSENT = """
import sys
for name in ("lowwater_editor", "lowwater_generator", "lowwater_notebook"):
    sys.modules[name] = None  # as if it was not installed
from lowwater.cli.main import cli
print(*cli.commands)
"""


@pytest.mark.slow
def test_a_package_that_is_not_there_has_no_command() -> None:
    done = subprocess.run([sys.executable, "-c", ABSENT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"run", "ingest"} <= set(done.stdout.split()) and not {"lsp", "generate"} & set(done.stdout.split())
