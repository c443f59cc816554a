"""Messages about refused settings: key, allowed values, and an example. Below `config`."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError

EXAMPLES = {
    "lake": 'lake = "lake"',
    "interval.length": 'length = "1h"',
    "links.*": "[links.main1]",
    "links.*.captures": 'captures = "captures/main1-%Y%m%d%H.pcap"',
    "links.*.rotation": 'rotation = "1h"',
    "links.*.timezone": 'timezone = "Europe/Berlin"',
    "links.*.interfaces": 'interfaces = "each"',
    "links.*.payload": "payload = 64",
    "links.*.applications": 'applications = ["dns", "tls"]',
    "links.*.sampling": "sampling = true",
    "links.*.shed": "shed = 10000",
    "links.*.unmarked_estimates": "unmarked_estimates = true",
    "links.*.duplicates": 'duplicates = "drop 50ms"',
    "links.*.duplicate_bytes": 'duplicate_bytes = "packet"',
    "links.*.anonymise": 'anonymise = "main1.key"',
    "links.*.kind": 'kind = "csv"',
    "links.*.schemas": 'schemas = ["schemas/flow.schema"]',
    "links.*.separator": 'separator = ";"',
    "links.*.protocol": 'protocol = "FLOW"',
    "links.*.quote": 'quote = "\'"',
    "links.*.header": "header = true",
    "links.*.null": 'null = ["", "-"]',
    "links.*.decimal": 'decimal = ","',
    "links.*.skew": 'skew = "1s"',
    "links.*.skews": "skews = { sequence = 100 }",
    "links.*.group_skew": 'group_skew = { column = "vlan_id", values = { 7 = "5s" } }',
    "links.*.resolution": 'resolution = "nanoseconds"',
    "links.*.max_jump": 'max_jump = "61s"',
    "links.*.since": 'since = "2026-01-31T13:00:00Z"',
    "links.*.until": 'until = "2026-02-28T13:00:00Z"',
    "links.*.symbolic_links": 'symbolic_links = "read"',
    "links.*.gap_tolerance": 'gap_tolerance = "2s"',
    "links.*.max_drops": "max_drops = 0.001",
    "links.*.covers": 'covers = { "node-1.pcap" = "2026-01-31T13:05:00Z/2026-01-31T14:10:00Z" }',
    "links.*.policy": 'policy = "publish"',
    "links.*.delay": 'delay = "0s"',
    "links.*.thresholds.latest": 'latest = "10 min"',
    "links.*.thresholds.dropped": "dropped = { warning = 0, critical = 0.1 }",
    "links.*.thresholds": "thresholds = { violating = 0.01 }",
    "links.*.retention": 'retention = { packets = "90d" }',
    "links.*.properties": 'properties = { place = "north" }',
    "links.*.periods": 'periods = [{ since = "2026-03-01T00:00:00Z", timezone = "Europe/Berlin" }]',
    "links": "[links.main1]",
    "sets": 'core = ["main1", "main2"]',
    "query_sets": "[query_sets.flows]",
    "sets.*": 'core = ["main1", "main2"]',
    "query_sets.*": "[query_sets.flows]",
    "query_sets.*.files": 'files = "flows.gsql"',
    "query_sets.*.schemas": 'schemas = "log.schema"',
    "query_sets.*.functions": 'functions = "mine.fun"',
    "query_sets.*.params": "params = { port = 443 }",
    "query_sets.*.chain_start": 'chain_start = "2026-01-01"',
    "query_sets.*.interval": 'interval = "10 min"',
    "query_sets.*.heartbeat": 'heartbeat = "1s"',
    "query_sets.*.processes": 'processes = "each"',
    "query_sets.*.deadline": 'deadline = "30 min"',
    "query_sets.*.approval": "approval = true",
    "thresholds.latest": 'latest = "10 min"',
    "thresholds.*": "violating = { warning = 0.01, critical = 0.1 }",
    "history.intervals": "intervals = 24",
    "history.least": "least = 6",
    "history.season": 'season = "1d"',
    "history.*": "volume = { warning = 0.8, critical = 1 }",
    "suites.memory": 'memory = "1g"',
    "suites.time": 'time = "5 min"',
    "suites.code": 'code = "forbidden"',
    "suites.modules": 'modules = "/srv/expectations"',
    "replay.heartbeat": 'heartbeat = "1s"',
    "replay.tick": 'tick = "10 min"',
    "replay.chunk": "chunk = 131072",
    "replay.task_packets": "task_packets = 4194304",
    "replay.flush": 'flush = "immediate"',
    "replay.table": 'table = "adjacent"',
    "replay.copies": "copies = 4096",
    "replay.tuned": "tuned = true",
    "replay.partitions": "partitions = 0",
    "replay.memory": 'memory = "2g"',
    "replay.patience": 'patience = "15 min"',
    "replay.processes": 'processes = "shared"',
    "replay.threads": "threads = 8",
    "spark.master": 'master = "local[*]"',
    "spark.remote": 'remote = "sc://spark:15002"',
    "schedule.runs": 'runs = "looks"',
    "schedule.every": 'every = "10 min"',
    "schedule.look_back": 'look_back = "7d"',
    "schedule.longest_pause": 'longest_pause = "1h"',
    "schedule.longest_outage": 'longest_outage = "1d"',
    "schedule.deadline": 'deadline = "30 min"',
    "schedule.approval": "approval = true",
    "schedule.maintain": 'maintain = "daily"',
    "schedule.verify": "verify = 30",
    "notify.url": 'url = "https://example.org/hook"',
    "notify.connection": 'connection = "my_hook"',
    "notify.email": 'email = ["desk@example.org"]',
    "notify.mail_connection": 'mail_connection = "smtp_default"',
    "notify.warnings": "warnings = true",
    "notify.digest": 'digest = "daily"',
    "files.folders": 'folders = ["lists"]',
    "retention.versions": 'versions = "7d"',
    "retention.*": 'packets = "90d"',
}
"""Key, with `*` for any name -> a valid line of the settings. Keys below it share its example."""

_FORMS = {
    "replay.memory": "must be digits and k, m or g, and not begin with 0",
    "spark.master": "must be local[*], local[N], spark://HOST:PORT, k8s://ADDRESS or yarn",
    "spark.remote": "must be the address of a Spark Connect server, sc://HOST:PORT",
    "replay.flush": "must be immediate, slow N, oop-slow N M or lazy N",
    "notify.url": "must be an address that begins with http:// or https://",
    "notify.connection": "must be the name of a connection of Airflow: at most 200 letters, digits and _ . : -",
    "notify.mail_connection": "must be the name of a connection of Airflow: at most 200 letters, digits and _ . : -",
    "notify.email": "must be an address of mail, such as desk@example.org",
    "sets": "is not a valid name of a set: a letter or _, then letters, digits, _ and -",
    "query_sets": "is not a valid name of a query set: a letter or _, then letters, digits, _ and -",
}
"""Descriptions of the patterns of texts."""

_KINDS = (
    ("int", "must be a whole number"),
    ("float", "must be a number"),
    ("bool", "must be true or false"),
    ("string", "must be a text in quotes"),
    ("path", "must be a path in quotes"),
    ("dict", "must be a table"),
    ("mapping", "must be a table"),
    ("model", "must be a table"),
    ("tuple", "must be a list"),
)
_CHOICE = re.compile(r"constrained-int|literal\[.*\]|function-before\[.*\]|str|int|float|bool|union\[.*\]")
_BOUNDS = {
    "greater_than": "above",
    "greater_than_equal": "at least",
    "less_than": "below",
    "less_than_equal": "at most",
}
_HOUR = 3600 * 10**9


def refusals(error: ValidationError) -> list[tuple[str, str]]:
    """Returns (key, message) of every refused setting; a key occurs once."""
    texts_by_key: dict[str, list[str]] = {}
    for detail in error.errors():
        key = _key(detail["loc"])
        texts_by_key.setdefault(key, []).append(_allowed(key, detail))
    return [(key, _joined(key, list(dict.fromkeys(texts)))) for key, texts in texts_by_key.items()]


def _key(place: tuple[int | str, ...]) -> str:
    """Returns table and key, without the alternative that pydantic tried for a value of several types."""
    parts = [str(part) for part in place if part != "[key]"]
    several = len(parts) > 2 and (parts[-2] in ("payload", "heartbeat") or (len(parts) > 3 and parts[-3] == "params"))
    return ".".join(parts[:-1] if several and _CHOICE.fullmatch(parts[-1]) else parts)


def _allowed(key: str, detail: Any) -> str:
    kind, context = str(detail["type"]), detail.get("ctx", {})
    if kind == "string_pattern_mismatch" or (kind == "string_too_long" and key in _FORMS):
        return _FORMS.get(key) or _FORMS.get(key.partition(".")[0], str(detail["msg"]))
    if kind in _BOUNDS:
        bound = next(iter(context.values()))
        return f"must be {_BOUNDS[kind]} {'1h' if bound == _HOUR else bound}"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    if kind == "value_error":
        return str(detail["msg"]).removeprefix("Value error, ")
    return next((text for prefix, text in _KINDS if kind.startswith(prefix)), str(detail["msg"]))


def _joined(key: str, texts: list[str]) -> str:
    first, *others = texts
    text = " or ".join([first, *(other.removeprefix("must be ") for other in others)])
    named = re.match(r"(\w+): ", text)  # a message about several settings of a table begins with one of them
    example = example_of(f"{key}.{named[1]}" if named else key)
    return (
        text
        if not example or "write" in text or "did you mean" in text or "known are" in text
        else (f"{text}; write for example {example}")
    )


def example_of(key: str) -> str:
    """Returns the example of a key, or of the nearest table above it that has one; empty without one."""
    parts = key.split(".")
    for size in range(len(parts), 0, -1):
        head = parts[:size]
        for pattern, example in EXAMPLES.items():
            names = pattern.split(".")
            if len(names) == size and all(a in ("*", b) for a, b in zip(names, head, strict=True)):
                return example
    return ""
