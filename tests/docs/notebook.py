"""Executes a notebook without Jupyter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.docs.book import ROOT, without_progress

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"

RUNNER = """
import ast, base64, code, io, json, sys
from contextlib import redirect_stdout

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt

class Cells(code.InteractiveInterpreter):
    def showtraceback(self):
        raise

def shown(value):
    if value is not None:
        outputs.append({"output_type": "execute_result", "metadata": {}, "data": {"text/plain": repr(value)}})

sys.displayhook = shown
cells, answers = Cells({"__name__": "__main__"}), []
for number, source in enumerate(json.load(sys.stdin)):
    outputs, printed = [], io.StringIO()
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(printed):
        cells.runcode(compile(tree, f"cell {number + 1}", "exec"))
        if last is not None and source.rstrip().endswith(";"):  # as in Jupyter: the value is not shown
            last = cells.runcode(compile(ast.Module([last], []), f"cell {number + 1}", "exec"))
        if last is not None:
            cells.runcode(compile(ast.Interactive([last]), f"cell {number + 1}", "single"))
    for figure in map(plt.figure, plt.get_fignums()):
        image = io.BytesIO()
        figure.savefig(image, dpi=80, bbox_inches="tight")
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    plt.close("all")
    if printed.getvalue():
        outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": printed.getvalue()})
    answers.append(outputs)
json.dump(answers, sys.__stdout__)
"""


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def code_cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def execute(document: dict[str, Any], folder: Path) -> list[list[dict[str, Any]]]:
    """Runs the code cells with `folder` as the working directory; returns the outputs of each."""
    sources = ["".join(cell["source"]) for cell in code_cells(document)]
    done = subprocess.run(
        [sys.executable, "-c", RUNNER], input=json.dumps(sources), cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return answers


def texts(outputs: list[dict[str, Any]]) -> list[str]:
    """What a cell prints and returns."""
    written = [output.get("text") or output.get("data", {}).get("text/plain") for output in outputs]
    return [text for each in written if each and (text := without_progress("".join(each)))]


def pictures(outputs: list[dict[str, Any]]) -> list[str]:
    """The pictures of a cell, PNG in base 64."""
    return [output["data"]["image/png"] for output in outputs if "image/png" in output.get("data", {})]


def rewrite(folder: Path, path: Path = NOTEBOOK) -> None:
    """Writes the outputs into the notebook."""
    document = read(path)
    for number, (cell, outputs) in enumerate(zip(code_cells(document), execute(document, folder), strict=True), 1):
        cell["execution_count"] = number
        results = [
            {**output, "execution_count": number} if "execute" in output["output_type"] else output
            for output in outputs
        ]
        cell["outputs"] = results
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
