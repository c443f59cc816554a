"""Helm without its program: a process that renders and lints a chart by Helm's own Go packages, which a wheel carries.

`engine.py template NAME CHART` and `engine.py lint CHART` take the options of `helm` that the tests use, and print and
end as it does. A process of its own, since the runtime of Go should not live in that of the tests.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

PARSERS = {"--set": "parse_set_string", "--set-string": "parse_set_string_values", "--set-json": "parse_set_json"}
"""Option of `helm` -> the function of its packages that reads it."""


def merged(into: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Adds values to others, as `helm` adds one option to those before it.

    Example:
        >>> merged({"a": {"b": 1}}, {"a": {"c": 2}})
        {'a': {'b': 1, 'c': 2}}
    """
    for name, value in more.items():
        known = into.get(name)
        into[name] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return into


def template(helm: Any, chart: str, name: str, namespace: str, values: dict[str, Any]) -> str:
    """The resources of a chart as YAML documents.

    Args:
        helm: the module of Helm's packages.
        chart: folder of the chart.
        name: name of the release.
        namespace: its namespace.
        values: those of the options; they are held against the schema of the chart.
    """
    with helm.Chart.load(chart) as loaded:
        loaded.validate_schema(values)
        made = loaded.render(values, name=name, namespace=namespace)
    files = {path: text for path, text in sorted(made.items()) if path.endswith(".yaml") and text.strip()}
    return "".join(f"---\n# Source: {path}\n{text}\n" for path, text in files.items())


def findings(helm: Any, chart: str, kubernetes: str) -> list[str]:
    """What the strict lint of Helm has against a chart, from warnings on; empty where it has nothing.

    Args:
        helm: the module of Helm's packages.
        chart: folder of the chart.
        kubernetes: version of Kubernetes.
    """
    report = helm.lint(chart, strict=True, kube_version=kubernetes)
    told = [f"{each['path']}: {each['error']}" for each in report["messages"] if each["severity"] > 1]
    return [*told, *report["errors"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what `helm` would; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=["template", "lint"])
    parser.add_argument("words", nargs="+", help="release and chart, or the chart alone")
    parser.add_argument("--namespace", default="default")
    parser.add_argument("--kube-version", default="v1.33.0", help="of lint")
    parser.add_argument("--strict", action="store_true", help="lint is strict always")
    for option in PARSERS:
        parser.add_argument(option, dest="given", action="append", default=[], type=lambda text, by=option: (by, text))
    chosen = parser.parse_args(arguments)
    helm: Any = import_module("helm_python")  # in a folder of its own, which the caller names in PYTHONPATH
    try:
        if chosen.verb == "lint":
            found = findings(helm, chosen.words[0], chosen.kube_version)
            print("\n".join(found))
            return 1 if found else 0
        values: dict[str, Any] = {}
        for option, text in chosen.given:
            merged(values, getattr(helm, PARSERS[option])(text))
        name, chart = chosen.words
        print(template(helm, chart, name, chosen.namespace, values))
    except helm.HelmError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
