"""What the columns of a query are, which decides what the pages propose to plot."""

from __future__ import annotations

import pytest

from lowwater.plan.context import Links
from lowwater.plan.properties import Measure, quantities
from lowwater.plan.queryset import plan_texts

DNS = (
    "SELECT Q.timestamp, Q.dns_id AS id, Q.srcPort + 0 AS port, (A.timestamp - Q.timestamp)/1 ms AS latency "
    "INNER_JOIN FROM a.DNS Q, a.DNS A WHERE Q.dns_id = A.dns_id AND Q.timestamp <= A.timestamp "
    "AND A.timestamp <= Q.timestamp + 2 s"
)
COUNTS = (
    "DEFINE { query_name 'counts'; } SELECT tb, destPort, max(ttl) AS top, count(*) AS n, sum(len)/count(*) AS mean "
    "FROM a.TCP GROUP BY time/60 AS tb, destPort;"
)
JOINED = (
    " DEFINE { query_name 'q'; } SELECT X.tb, X.destPort AS port, Y.n AS n, X.top AS top INNER_JOIN FROM counts X, "
    "counts Y WHERE X.tb = Y.tb AND X.destPort = Y.destPort"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DNS, {"timestamp": 3, "id": 3, "port": 2, "latency": 2}),
        (COUNTS, {"tb": 3, "destPort": 3, "top": 1, "n": 0, "mean": 1}),
        (COUNTS + JOINED, {"tb": 3, "port": 3, "n": 0, "top": 1}),
        ("SELECT timestamp, srcPort, 1 AS one FROM a.TCP", {"timestamp": 3, "srcPort": 3, "one": 3}),
    ],
)
def test_what_the_columns_are(text: str, expected: dict[str, int]) -> None:
    query = plan_texts([("q.gsql", text)], Links(("a",))).queries[-1]
    found = {name: each.measure for name, each in quantities(query.logical).items()}
    assert found == {name: Measure(value) for name, value in expected.items()}
