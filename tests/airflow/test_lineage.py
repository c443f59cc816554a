"""What OpenLineage is told of a published table, by its own classes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lowwater.instants import HOUR, SECOND, format_instant
from tests.cli.test_streams import Setup
from tests.review.ledgers import START


@pytest.mark.slow
def test_facets_of_a_published_table(plugins: None, tmp_path: Path) -> None:
    pytest.importorskip("openlineage.client")
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.serde import Serde

    from lowwater_airflow.lineage import stream_facets

    setup = Setup(tmp_path)
    setup.publish(1, 2)
    path = str(setup.root / "tables" / "flows")
    told = json.loads(Serde.to_json(Dataset(namespace="file", name=path, facets=stream_facets(path))))["facets"]
    assert [(field["name"], field["type"]) for field in told["schema"]["fields"]] == [
        ("tb", "long"),
        ("srcIP", "string"),
        ("cnt", "long"),
        ("tb_start", "timestamp"),
    ]
    assert told["ownership"]["owners"] == [{"name": "q", "type": "query set"}]
    assert told["version"]["datasetVersion"] == "1"
    stream = told["lowwater_stream"]
    assert (stream["interval_start"], stream["interval_end"]) == (
        format_instant(START + HOUR),
        format_instant(START + 2 * HOUR),
    )
    assert stream["promise"] == {"tb": (START + 2 * HOUR) // (60 * SECOND)}
    assert (stream["restated"], stream["late"], stream["published_until"]) == (
        *(False, False),
        format_instant(START + 2 * HOUR),
    )
    assert stream_facets(str(setup.root / "packets")) == {}
    assert stream_facets(str(setup.root / "tables" / "none")) == {}
