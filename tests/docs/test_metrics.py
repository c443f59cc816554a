"""docs/metrics.md, the dashboard and the alerts name the metrics that exist, and promtool takes the rules."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml

from lowwater.instants import parse_instant
from lowwater.lake import words
from lowwater.replay.job import Job
from lowwater.replay.schedule.looks import look
from lowwater.replay.telemetry import METRICS
from tests.cli.hostile import clean
from tests.lake.damage import TO, prepare
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


ALERTS = MONITORING / "alerts.yaml"
_SECONDS = {"m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> int:
    """A duration as Prometheus writes it."""
    return int(text[:-1]) * _SECONDS[text[-1]]


def alert_of(word: str) -> str:
    """The name of the alert of a state."""
    return "Lowwater" + word.title().replace(" ", "")


def rule(word: str) -> str:
    """The alert of a state: of each interval in it, or where a healthy lake has some, of one that is old."""
    of = words.WORDS[word]
    expr, lasting = f'lowwater_intervals{{state="{word}"}} > 0', of.alert
    summary = (
        f"{{{{ $value }}}} intervals of query set {{{{ $labels.query_set }}}} are in the state {word!r}: {of.means}."
    )
    if of.usual:
        expr = f'time() - lowwater_interval_oldest_seconds{{state="{word}"}} > {seconds(of.alert)}'
        lasting = "15m"
        summary = (
            "An interval of query set {{ $labels.query_set }} ended {{ $value | humanizeDuration }} ago, and is still "
            f"in the state {word!r}: {of.means}."
        )
    severity = "critical" if of.urgent else "warning"
    remedy = "`lowwater status` lists them, and `lowwater why QUERY_SET HOUR` says why one is so, and what changes it."
    lines = [
        f"      - alert: {alert_of(word)}",
        f"        expr: {json.dumps(expr)}",
        f"        for: {lasting}",
        f"        labels: {{ severity: {severity} }}",
        "        annotations:",
        f"          summary: {json.dumps(summary)}",
        f"          remedy: {json.dumps(remedy)}",
    ]
    return "".join(f"{line}\n" for line in lines)


TOLD = tuple(word for word, each in words.WORDS.items() if each.alert)


def with_rules(text: str) -> str:
    """The alerts, with those of states from the table of words."""
    head, mark, _ = text.partition("written by python -m tests.docs.test_metrics\n")
    return head + mark + "".join(map(rule, TOLD))


def test_the_alerts_of_states_are_those_of_the_table_of_words() -> None:
    text = ALERTS.read_text(encoding="utf-8")
    assert text == with_rules(text), "run .venv/bin/python -m tests.docs.test_metrics"


def test_every_state_that_is_not_good_is_told() -> None:
    """But those that a person chose, or the retention, or that pass with the process that is at work."""
    silent = {words.RUNNING, words.ROLLED_BACK, words.KEPT, words.WARNED, words.DONE}
    assert set(TOLD) == words.WORDS.keys() - silent


def firing(name: str, at: str, count: int) -> dict[str, Any]:
    """That so many alerts of a name fire at a time."""
    expr = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
    return {"expr": expr, "eval_time": at, "exp_samples": [{"labels": "{}", "value": count}]}


@pytest.fixture
def promtool(tmp_path: Path) -> Callable[[str], None]:
    """Runs unit tests of the alerts; the program comes with Debian's `prometheus`."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: it comes with Debian's package prometheus")

    def run(tests: str) -> None:
        shutil.copy(ALERTS, tmp_path)
        (tmp_path / "tests.yaml").write_text(tests, encoding="utf-8")
        command = [program, "test", "rules", "tests.yaml"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[:4000]

    return run


@pytest.mark.slow
def test_promtool_agrees_with_the_tests_of_the_alerts(promtool: Callable[[str], None]) -> None:
    promtool((MONITORING / "alerts_test.yaml").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("days", [50, pytest.param(365, marks=pytest.mark.nightly)])
def test_a_recorded_year_fires_what_the_states_say(days: int, promtool: Callable[[str], None]) -> None:
    """A year of hours in which each state comes and goes, some for less and some for longer than it is borne."""
    hours, chance = 24 * days, random.Random(days)
    series, asked = [], []
    for word in TOLD:
        of = words.WORDS[word]
        bad = [False] * hours
        at = chance.randint(24, 200)
        while at < hours:
            last = min(hours, at + chance.choice((1, 3, 20, 26, 60)))
            bad[at:last] = [True] * (last - at)
            at = last + chance.randint(60, 200)
        name = "lowwater_interval_oldest_seconds" if of.usual else "lowwater_intervals"
        since = 0
        values, fires = [], []
        for hour, wrong in enumerate(bad):
            since = since if wrong else hour  # the last good hour; in a usual state the oldest is then that of now
            values.append(since * 3600 if of.usual else 3 * wrong)
            behind, lasts = (hour - since) * 3600, sum(1 for _ in takewhile(bool, reversed(bad[: hour + 1]))) - 1
            if of.usual:  # for: 15m is the next look
                before = hour > 0 and (hour - 1 - (since if wrong else hour - 1)) * 3600 > seconds(of.alert)
                fires.append(behind > seconds(of.alert) and before)
            else:
                fires.append(wrong and lasts * 3600 >= seconds(of.alert))
        series.append({"series": f'{name}{{query_set="q",state="{word}"}}', "values": " ".join(map(str, values))})
        edges = [hour for hour in range(1, hours) if fires[hour] != fires[hour - 1]]
        for hour in sorted({hour + step for hour in edges for step in (-1, 0)} | {*chance.sample(range(hours), 5)}):
            asked.append((hour, word, fires[hour]))
    assert {word for _, word, fire in asked if fire} == set(TOLD), "each state is told of in this year"
    checks = [firing(alert_of(word), f"{hour}h", int(fire)) for hour, word, fire in asked]
    test = {"interval": "1h", "input_series": series, "promql_expr_test": checks}
    promtool(yaml.safe_dump({"rule_files": ["alerts.yaml"], "evaluation_interval": "1h", "tests": [test]}, width=1e9))


@pytest.mark.slow
def test_a_hole_in_the_middle_is_told(tmp_path: Path, promtool: Callable[[str], None]) -> None:
    """An hour never comes, since its sensor was off; later hours are published. Nothing was told of it."""
    folder = prepare(tmp_path)
    lake = folder / "lake"
    settings = lake / "lowwater.toml"
    next(iter(sorted((folder / "captures" / "main1").iterdir())[1:2])).unlink()
    text = settings.read_text().replace("[links.main1]", '[links.main1]\nsince = "2026-01-01T00:00Z"')
    settings.write_text(text)
    clean("ingest", "--lake", lake, code=None)
    clean("backfill", "--lake", lake, "--to", TO, code=None)
    look(Job.open(lake, "flows", folder / "q"), parse_instant("2026-01-01T04:00Z"))
    said = clean("metrics", "--lake", lake).out
    found = re.findall(r"^(lowwater_\w+(?:\{.*\})?) (\S+)$", said, re.MULTILINE)
    series = [{"series": name, "values": f"{float(value):f}x130"} for name, value in found]
    fired = {"LowwaterCannotStart": 1, "LowwaterStreamHoles": 1, "LowwaterFailed": 0, "LowwaterDamaged": 0}
    checks = [firing(name, "2h", count) for name, count in fired.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
    promtool(yaml.safe_dump({"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}, width=1e9))
    assert re.search(r'lowwater_looked_seconds\{query_set="flows"\} \d', said)


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
    unseen = {"lowwater_link_captured_bytes", "lowwater_link_captured_until_seconds"}
    unseen |= {"lowwater_stream_version", "lowwater_audit_failed", "lowwater_collection_seconds"}
    unseen |= {"lowwater_verified_seconds"}
    assert shown == NAMES - unseen


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    ALERTS.write_text(with_rules(ALERTS.read_text(encoding="utf-8")), encoding="utf-8")
