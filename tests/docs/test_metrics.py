"""docs/metrics.md, the dashboard and the alerts name the metrics that exist, and promtool takes the rules."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from lowwater.replay.telemetry import METRICS
from tests.replay.support import ROOT

PAGE = ROOT / "docs" / "metrics.md"
MONITORING = ROOT / "docker" / "monitoring"
NAMES = {metric.name for metric in METRICS}
NAMED = re.compile(r"\blowwater_[a-z_]+")
LABELLED = re.compile(r"(lowwater_[a-z_]+)\{([^}]*)\}")


def table() -> str:
    """The table of the page, from the catalogue."""
    rows = [
        f"| `{metric.name}` | {metric.unit} | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |"
        for metric in METRICS
    ]
    return "\n".join(["| metric | unit | labels | value |", "| --- | --- | --- | --- |", *rows])


def filled(text: str) -> str:
    before, _, rest = text.partition("<!-- metrics -->\n")
    return f"{before}<!-- metrics -->\n{table()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"


def expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    chosen = [variable["query"]["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    groups = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [*shown, *chosen, *(rule["expr"] for group in groups for rule in group["rules"])]


def test_the_page_lists_every_metric() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == filled(text), "run .venv/bin/python -m tests.docs.test_metrics"


def test_every_metric_and_label_of_the_dashboard_and_the_alerts_exists() -> None:
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    asked = expressions()
    assert len(asked) > 20
    for expression in asked:
        assert set(NAMED.findall(expression)) <= NAMES, expression
        for name, matchers in LABELLED.findall(expression):
            assert set(re.findall(r"(\w+)\s*=", matchers)) <= labels[name], expression
    shown = {name for expression in asked for name in NAMED.findall(expression)}
    unseen = {"lowwater_link_captured_bytes", "lowwater_link_captured_until_seconds", "lowwater_stream_holes"}
    unseen |= {"lowwater_stream_version", "lowwater_audit_failed", "lowwater_collection_seconds"}
    assert shown == NAMES - unseen


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
