"""Options of DEFINE: reads the values of a statement and checks them.

Called by `queries`. An option of the public compilers works, has no effect and gets a note, or is refused by name
(shared rules of GSQL, section 3). Any other entry is text for `#name`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from lowwater.catalog.functions import Cost
from lowwater.gsql import nodes as syntax
from lowwater.plan.operators import Sample
from lowwater.plan.properties.unique_keys import StatedKeys
from lowwater.plan.text import Text, nearest, place_of

WORKS = (
    "query_name",
    "visibility",
    "aggregate_slots",
    "select_lfta",
    "lfta_cost",
    "dialect",
    "keys",
    "extra_keys",
    "algorithm",
    "filename",
    "refresh_interval",
    "sample",
    "sample_seed",
)

KEYS = ("keys", "extra_keys")

_RATE = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")

TEXT = ("comment", "title", "namespace", "_referenced_ifaces")

NO_EFFECT = {
    "slow_flush": "an LFTA flushes when a promise closes the epoch; a run's rows do not depend on it",
    "hfta_slow_flush": "results are emitted when the promise allows",
    "max_lfta_disorder": "the skew of a link bounds its disorder, and every open epoch is kept",
    "max_hfta_disorder": "the skew of a link bounds its disorder, and every open epoch is kept",
    "real_time": "the clock of a replay is virtual, and temporal values are saved before any predicate",
    "num_bloom": "FILTER_JOIN is exact, whatever the algorithm",
    "bloom_size": "FILTER_JOIN is exact, whatever the algorithm",
    "print_warnings": "what is not counted is recorded with its reason",
    "reusable": "a run computes every query once",
    "liveness_timeout": "a gap in the coverage of a link is a failed node",
}

REFUSED = {
    "no_temporal_aggr": (
        "an aggregation without a temporal group-by variable, which would never close",
        "add an epoch such as time/60 AS tb to GROUP BY",
    ),
    "lfta_aggregation": (
        "lfta_aggregation: its partial groups would depend on the size of a table",
        "leave it out: the high level completes the groups",
    ),
}


def options(statement: syntax.Statement) -> Mapping[str, str]:
    """Returns the entries of the DEFINE block: option -> value as written."""
    return dict(getattr(statement, "defines", ()))


def check_options(statement: syntax.Statement, text: Text) -> list[str]:
    """Checks the options of a statement.

    Returns:
        Notes on options without effect and on likely misspellings.

    Raises:
        UnsupportedError: an option is refused, since its rows could be wrong.
        QueryError: an option does not take its value.
    """
    notes = []
    names = (*WORKS, *TEXT, *NO_EFFECT, *REFUSED)
    entries = options(statement)
    for name, value in entries.items():
        if name in REFUSED:
            what, hint = REFUSED[name]
            raise text.unsupported(place_of(statement), f"Lowwater does not run {what}", hint)
        if name in NO_EFFECT:
            notes.append(f"DEFINE {name} changes nothing: {NO_EFFECT[name]}")
        elif name not in names:
            close = difflib.get_close_matches(name, names, 1, 0.75)
            if close:
                notes.append(f"DEFINE {name} is only text for #{name}: did you mean {close[0]}?")
        if name == "visibility" and value.lower() not in ("internal", "external"):
            notes.append(f"visibility {value!r} hides nothing: 'internal' does")
        if name == "dialect" and value not in ("lowwater", "gigascope"):
            raise text.error(place_of(statement), f"dialect {value!r} is unknown", "write lowwater or gigascope")
        if name == "algorithm" and value not in ("hash", "bloom"):
            raise text.error(place_of(statement), f"algorithm {value!r} is unknown", "write hash or bloom")
    if isinstance(statement, syntax.Merge) and statement.slack is not None:
        notes.append("SLACK changes nothing: the skew of a link bounds its disorder")
    return notes


def slots_of(statement: syntax.Statement, text: Text) -> int | None:
    """Reads `aggregate_slots`, the size of the group tables of a query.

    Returns:
        The number of slots, rounded up to a power of two; None if the option is absent.
    """
    written = options(statement).get("aggregate_slots", "")
    if not written:
        return None
    if not written.isdigit() or len(written) > 9 or not 1 <= int(written) <= 1 << 24:
        raise text.error(place_of(statement), f"aggregate_slots {written!r} is not a number from 1 to {1 << 24}")
    return 1 << (int(written) - 1).bit_length()


def sample_of(statement: syntax.Statement, text: Text, kind: str) -> Sample | None:
    """Reads `sample` and `sample_seed`, the share of the packets that a query reads (SEMANTICS O5).

    Args:
        statement: the parsed statement.
        text: the file that holds the statement, for messages.
        kind: the kind of the source's records, such as `pcap`.

    Returns:
        The rate and the seed; None if the query reads all packets.

    Raises:
        UnsupportedError: the records are not packets.
        QueryError: the rate is not above 0 and at most 1, or the seed is not a whole number.
    """
    entries = options(statement)
    written, seed = entries.get("sample", ""), entries.get("sample_seed", "0")
    if not seed.isdigit() or int(seed) >= 1 << 63:
        raise text.error(
            place_of(statement),
            f"sample_seed {seed!r} is not a whole number",
            "write a whole number of 0 or more, such as '1'",
        )
    if "sample" not in entries:
        return None
    hint = "write a share above 0 and up to 1, such as sample '0.01'"
    if len(written) > 20 or not _RATE.fullmatch(written):
        raise text.error(place_of(statement), f"sample {written!r} is not a share of the packets", hint)
    if kind != "pcap":
        raise text.unsupported(place_of(statement), "Lowwater samples packets only", "leave out DEFINE sample")
    rate = float(written)
    if not 0 < rate <= 1:
        raise text.error(place_of(statement), f"sample {written!r} is not a share of the packets", hint)
    return Sample(rate, int(seed))


def threshold_of(statement: syntax.Statement, text: Text) -> int | None:
    """Reads `lfta_cost`, the cost from which a function is not LFTA-safe.

    Returns:
        The cost; None if the option is absent.
    """
    written = options(statement).get("lfta_cost", "")
    if not written:
        return None
    if written.upper() in Cost.__members__:
        return Cost[written.upper()]
    if not written.isdigit() or len(written) > 9:
        hint = f"write {', '.join(Cost.__members__)}, or a number"
        raise text.error(place_of(statement), f"lfta_cost {written!r} is unknown", hint)
    return int(written)


def keys_of(statement: syntax.Statement, names: Sequence[str], text: Text) -> StatedKeys:
    """Reads `keys` and `extra_keys`, the unique key that a query states.

    Args:
        statement: the parsed statement.
        names: the output columns of the query.
        text: the file that holds the statement, for messages.

    Raises:
        QueryError: a key is not a column of the query.
    """
    entries = options(statement)
    written = {word: [part.strip() for part in entries.get(word, "").split(",") if part.strip()] for word in KEYS}
    for word, keys in written.items():
        for key in keys:
            if key not in names:
                raise text.error(place_of(statement), f"{word}: the query has no column {key}", nearest(key, names))
    return StatedKeys(*(tuple(keys) for keys in written.values()))
