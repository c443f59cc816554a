"""Every route with absurd values: an answer below 500, soon, whatever the parameters are."""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from lowwater.errors import LakeError
from lowwater.instants import HOUR
from lowwater.lake.layout import open_lake
from lowwater.lake.results.exploring import OPERATORS, Filter, RowQuery, result_table
from tests.breadth import examples
from tests.cli.hostile import HOSTILE as CONTROL
from tests.review.asgi import ask
from tests.review.ledgers import HOSTILE
from tests.review.resultlake import START
from tests.review.test_routes import KNOWN, PARAMETERS, Markup

pytestmark = pytest.mark.slow
NUMBERS = [
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "9" * 5000,
    "1e400",
    "nan",
    "-1",
    "1.5",
]
NUMBERS += ["0x10", "1_000", " 5 ", "١٢", "²", "", "true", "999999"]
TEXTS = [
    "\0",
    "\uffff",
    "\ud800",
    "'",
    '"',
    "%",
    "\\" * 3000,
    "[" * 3000,
    "a" * 9000,
    "(a+)+$",
    HOSTILE,
    CONTROL,
    "../../x",
]
TEXTS += ["10.0.0.1", "::1", "10.0.0.999", "[]", "{}", "null", "srcIP", "bytes", "cnt", "tb", "_last", "nope"]
INSTANTS = [
    "9999-12-31T23:59:59Z",
    "2262-04-12T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "0001-01-01",
    "2026-01-01T00:30:00Z",
]
ROWS = ['{"tb":99999999999999999999}', '{"tb":1e400,"srcIP":"x"}', '{"tb":null,"srcIP":5}', '{"tb":[1]}', '{"":{}}']
VALUES = [*NUMBERS, *TEXTS, *INSTANTS, *ROWS]
COLUMNS = ["tb", "srcIP", "cnt", "bytes", "nope", "_last", "tb_start", "_hour", ""]


def wanted(rng: random.Random) -> list[tuple[str, str]]:
    pairs = []
    for _ in range(rng.choice([0, 1, 1, 2, 9])):
        pairs += [("column", rng.choice(COLUMNS)), ("op", rng.choice([*OPERATORS, "x"])), ("value", rng.choice(VALUES))]
    others = [name for name in PARAMETERS if name not in ("column", "op", "value")] + ["desc", "text", "range", "start"]
    return pairs + [(name, rng.choice(VALUES)) for name in rng.sample(others, rng.choice([0, 1, 1, 2]))]


def test_no_value_of_a_parameter_is_a_failure_of_the_server(app: Any) -> None:
    rng, begun, statuses = random.Random(41), time.process_time(), set[int]()
    paths = sorted(
        {route.path for route in app.routes if "GET" in route.methods and not route.path.startswith("/write")}
    )
    for _ in range(examples(170)):
        shown = rng.choice(paths)
        path = re.sub(r"\{([^}]*)\}", lambda found: quote(KNOWN[found[1]]) if rng.random() < 0.95 else "x", shown)
        query = urlencode([(name, value.encode(errors="surrogatepass")) for name, value in wanted(rng)])
        answer = ask(app, path, query=query)
        assert answer.status < 500, (path, query, answer.text)
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert not Markup(answer.text).wrong, (path, query)
        statuses.add(answer.status)
    assert {200, 400} <= statuses
    assert time.process_time() - begun < 2 * examples(170), "a request takes much too long"


@pytest.mark.parametrize("query", ["flows", "singles"])
def test_a_filter_means_its_value_or_is_refused(query: str, made: tuple[Path, Path]) -> None:
    """Every column by every comparison: rows, or one error that names the value."""
    table = result_table(open_lake(made[0]), query)
    for column in table.columns.names:
        for operator in OPERATORS:
            for value in ("9223372036854775808", "-9223372036854775809", "9" * 5000, "1e400", "x", "\0", "7"):
                row_query = RowQuery(START, START + HOUR, (Filter(column, operator, value),))
                try:
                    table.count(row_query)
                    table.page(row_query, 0, 5)
                except LakeError as error:
                    assert column in str(error) and operator != "is null"
                    assert len(str(error)) < 500


@pytest.mark.parametrize("query", ["flows", "ports", "singles"])
def test_a_row_of_any_values_has_packets_or_is_refused(app: Any, made: tuple[Path, Path], query: str) -> None:
    """Whole rows, each with one value that no row has: in a column of the clock, an address, a number."""
    row = result_table(open_lake(made[0]), query).page(RowQuery(START, START + HOUR), 0, 1).to_pylist()[0]
    absurd = [
        10**19,
        -(10**19),
        10**400,
        1 << 63,
        1.5,
        1e300,
        float("nan"),
        float("inf"),
        True,
        None,
        "",
        "x",
        "\ud800",
    ]
    statuses = Counter[int]()
    for number, (column, value) in enumerate(product(row, absurd)):
        page = ("packets", "packets.pcapng", "evidence.zip")[number % 3]
        answer = ask(app, f"/results/q/{query}/{page}", query=urlencode({"row": json.dumps({**row, column: value})}))
        assert answer.status < 500, (column, value, answer.text)
        statuses[answer.status] += 1
    assert statuses[200] >= 5
