"""Random queries, each with an oracle: scalars by Python's integers, relations by DuckDB or a few lines of Python."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from tests.database import database
from tests.hostile.scalars import COLUMNS, COMPARE, Scalar, binary, boolean, column, constant, integer, wrapped
from tests.hostile.traffic import SECOND, Packet, World

Rows = list[tuple[Any, ...]]
Oracle = Callable[[World], Rows]

MEMBERS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "ETH": lambda fields: True,
    "DataProtocol": lambda fields: fields["ipversion"] is not None,
    "IPV4": lambda fields: fields["ipversion"] == 4,
    "IPV6": lambda fields: fields["ipversion"] == 6,
    "TCP": lambda fields: fields["protocol"] == 6,
    "UDP": lambda fields: fields["protocol"] == 17,
    "ICMP": lambda fields: fields["icmp_type"] is not None,
    "ARP": lambda fields: fields["arp_op"] is not None,
}


@dataclass(frozen=True)
class Source:
    """Links and a protocol."""

    text: str
    links: tuple[str, ...]
    protocol: str

    def packets(self, world: World) -> list[Packet]:
        """The admitted packets of the source."""
        member = MEMBERS[self.protocol]
        return [p for p in world.admitted() if p.link in self.links and member(p.fields)]


@dataclass(frozen=True)
class Case:
    """A query and the truth about it."""

    family: str
    text: str
    oracle: Oracle | None
    files: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


def draw(seed: int, links: Sequence[str], number: int) -> Case:
    """The case of a number; every family comes in turn."""
    rng = random.Random(f"case {seed} {number}")
    name = list(FAMILIES)[(seed + number) % len(FAMILIES)]
    return FAMILIES[name](rng, list(links))


def _source(rng: random.Random, links: Sequence[str], protocols: Sequence[str] = tuple(MEMBERS)) -> Source:
    """One link, a list of them, or all."""
    protocol = rng.choice([*protocols, "DataProtocol", "TCP"] if len(protocols) > 2 else protocols)
    roll = rng.random()
    if roll < 0.35:
        link = rng.choice(list(links))
        return Source(f"{link}.{protocol}", (link,), protocol)
    if roll < 0.7:
        some = tuple(rng.sample(list(links), rng.randrange(1, len(links) + 1)))
        return Source(f"[{', '.join(some)}].{protocol}", some, protocol)
    return Source(protocol, tuple(links), protocol)


def _key(rng: random.Random) -> Scalar:
    """What rows are grouped or matched by: often a column, at times an expression."""
    roll = rng.random()
    if roll < 0.6:
        return column(rng.choice(("srcIP", "destIP", "srcPort", "destPort", "protocol", "ttl", "interface", "SYN")))
    if roll < 0.85:
        return binary("%", column(rng.choice(COLUMNS)), constant(rng.choice((2, 3, 7))))
    return integer(rng, 1)


def _epoch(rng: random.Random) -> tuple[str, Callable[[Packet], int]]:
    """A temporal expression, and its value."""
    name, unit = rng.choice((("time", 1), ("time", 1), ("timestamp_ms", 1000), ("timestamp", SECOND)))
    size = rng.choice((1, 2, 5, 7, 10, 60)) * unit
    shift = rng.choice((0, 0, 3 * unit))
    text = f"({name} + {shift})/{size}" if shift else f"{name}/{size}"
    return text, lambda p: (p.fields[name] + shift) // size


def _where(rng: random.Random) -> tuple[str, Callable[[Packet], bool]]:
    roll = rng.random()
    if roll < 0.4:
        return "", lambda packet: True
    # A plain condition lets many packets pass, a drawn one often none.
    condition = boolean(rng) if roll < 0.7 else binary(rng.choice((">", "<>", "<=")), *_common(rng), COMPARE)
    return f" WHERE {condition.on()}", lambda packet: condition.of(packet) is True


def _common(rng: random.Random) -> tuple[Scalar, Scalar]:
    """A column, and a value that is near many of its values."""
    name, value = rng.choice((("len", 60), ("len", 454), ("destPort", 443), ("ttl", 63), ("srcPort", 1024)))
    return column(name), constant(value)


SUMMED = ("len", "srcPort", "destPort", "ttl", "flags", "total_length")
AGGREGATES = {
    "count(*)": "count(*)",
    "count({0})": "count({0})",
    "sum({0})": "sum({0})",
    "min({0})": "min({0})",
    "max({0})": "max({0})",
    "avg({0})": "avg({0})",
    "count_distinct({0})": "count(DISTINCT {0})",
    "FIRST({0})": "first({0} ORDER BY o) FILTER ({0} IS NOT NULL)",
    "LAST({0})": "last({0} ORDER BY o) FILTER ({0} IS NOT NULL)",
    "or_aggr({0})": "bit_or({0})",
    "xor_aggr({0})": "bit_xor({0})",
}
SPLIT = tuple(AGGREGATES)


def _aggregates(rng: random.Random, names: Sequence[str] = SPLIT) -> tuple[list[str], list[str], list[str]]:
    """Some aggregates: their texts, their SQL over columns c0, c1, ..., and the columns they read."""
    texts, sql, columns = [], [], []
    for _ in range(rng.randrange(1, 4)):
        form = rng.choice(list(names))
        name = rng.choice(SUMMED)
        texts.append(form.format(name))
        sql.append(AGGREGATES[form].format(f"c{len(columns)}"))
        columns.append(name)
    return texts, sql, columns


def _order(packet: Packet) -> tuple[int, str, int, int]:
    """The canonical order (O1)."""
    return packet.ts, packet.link, packet.file, packet.position


TYPES = {"srcIP": pa.string(), "destIP": pa.string(), "interface": pa.string(), "SYN": pa.bool_()}
"""Of columns that hold no integers."""


def _table(connection: duckdb.DuckDBPyConnection, name: str, columns: dict[str, list[Any]], key: str = "") -> None:
    """A relation of Python values, where NULL alone tells no type; `key` is the packet's column behind k0."""
    arrays = {label: pa.array(values) for label, values in columns.items()}
    for label, array in arrays.items():
        if pa.types.is_null(array.type):
            arrays[label] = array.cast(TYPES.get(key, pa.int64()) if label == "k0" else pa.int64())
    connection.register(f"{name}_rows", pa.table(arrays))
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {name}_rows")


def _grouped(
    packets: list[Packet], epoch: Callable[[Packet], int], keys: Sequence[Scalar], read: Sequence[str], sql: str
) -> Rows:
    """Rows of SQL over `r(o, t, k0, ..., c0, ...)`: order, epoch, keys, and what aggregates read."""
    packets = sorted(packets, key=_order)
    columns: dict[str, list[Any]] = {"o": list(range(len(packets)))}
    columns["t"] = [epoch(packet) for packet in packets]
    columns |= {f"k{n}": [key.of(packet) for packet in packets] for n, key in enumerate(keys)}
    columns |= {f"c{n}": [packet.fields.get(name) for packet in packets] for n, name in enumerate(read)}
    connection = database()
    _table(connection, "r", columns)
    return connection.execute(sql).fetchall()


def selection(rng: random.Random, links: list[str]) -> Case:
    """Items and a condition, both any expression."""
    source, (where, holds) = _source(rng, links), _where(rng)
    items = [integer(rng, 3) if rng.random() < 0.7 else boolean(rng) for _ in range(rng.randrange(1, 4))]
    listed = ", ".join(f"{item.on()} AS i{n}" for n, item in enumerate(items))
    text = f"SELECT time, {listed} FROM {source.text}{where}"

    def oracle(world: World) -> Rows:
        chosen = [packet for packet in source.packets(world) if holds(packet)]
        return [(packet.fields["time"], *(item.of(packet) for item in items)) for packet in chosen]

    return Case("selection", text, oracle)


def group(rng: random.Random, links: list[str]) -> Case:
    """Epochs, keys and aggregates, with HAVING at times."""
    source, (where, holds), (epoch, of) = _source(rng, links), _where(rng), _epoch(rng)
    keys = [_key(rng) for _ in range(rng.randrange(3))]
    texts, sql, read = _aggregates(rng)
    having, limit = rng.random() < 0.3, rng.randrange(1, 4)
    names = "".join(f", k{n}" for n in range(len(keys)))
    by = "".join(f", {key.on()} AS k{n}" for n, key in enumerate(keys))
    items = "".join(f", {text} AS a{n}" for n, text in enumerate(texts))
    text = f"SELECT tb{names}{items} FROM {source.text}{where} GROUP BY {epoch} AS tb{by}"
    text += f" HAVING count(*) >= {limit} AND count(*) % 2 = 1" if having else ""
    condition = f" HAVING count(*) >= {limit} AND count(*) % 2 = 1" if having else ""
    query = f"SELECT t{names}, {', '.join(sql)} FROM r GROUP BY t{names}{condition}"
    return Case("group", text, lambda w: _grouped([p for p in source.packets(w) if holds(p)], of, keys, read, query))


def cube(rng: random.Random, links: list[str]) -> Case:
    """CUBE, ROLLUP and GROUPING_SETS."""
    source, (where, holds), (epoch, of) = _source(rng, links), _where(rng), _epoch(rng)
    keys = [_key(rng) for _ in range(rng.choice((2, 2, 3)))]
    named = [f"{key.on()} AS k{n}" for n, key in enumerate(keys)]
    texts, sql, read = _aggregates(rng)
    kind = rng.choice(("CUBE", "ROLLUP", "GROUPING_SETS"))
    numbers = range(len(keys))
    if kind == "GROUPING_SETS":
        sets = [tuple(n for n in numbers if rng.random() < 0.6) for _ in range(3)]
        sets = list(dict.fromkeys([(*numbers,), *sets]))
        inner = ", ".join(f"({', '.join(named[n] if i == 0 else f'k{n}' for n in one)})" for i, one in enumerate(sets))
        there = ", ".join(f"({', '.join(['t', *(f'k{n}' for n in one)])})" for one in sets)
        clause = f"GROUPING SETS ({there})"
    else:
        inner = ", ".join(named)
        clause = f"t, {kind}({', '.join(f'k{n}' for n in numbers)})"
    names = "".join(f", k{n}" for n in numbers)
    items = "".join(f", {text} AS a{n}" for n, text in enumerate(texts))
    text = f"SELECT tb{names}{items} FROM {source.text}{where} GROUP BY {epoch} AS tb, {kind}({inner})"
    query = f"SELECT t{names}, {', '.join(sql)} FROM r GROUP BY {clause}"
    return Case("cube", text, lambda w: _grouped([p for p in source.packets(w) if holds(p)], of, keys, read, query))


def window(rng: random.Random, links: list[str]) -> Case:
    """Windows of time that follow, overlap or leave stretches out."""
    source, (where, holds) = _source(rng, links), _where(rng)
    length, slide = rng.choice((2, 5, 7, 12)), rng.choice((1, 2, 3, 5, 7))
    key = _key(rng)
    name, unit, sign = rng.choice((("time", 1, "s"), ("timestamp_ms", 1000, "s"), ("timestamp", SECOND, "s")))
    texts, sql, read = _aggregates(rng, SPLIT[:6])
    items = "".join(f", {text} AS a{n}" for n, text in enumerate(texts))
    shape = f"[RANGE {length} {sign}, SLIDE {slide} {sign}, WA {name}]"
    text = f"SELECT wid, k0{items} FROM {source.text} {shape}{where} GROUP BY {key.on()} AS k0"
    step, reach = slide * unit, length * unit

    def oracle(world: World) -> Rows:
        packets = sorted((p for p in source.packets(world) if holds(p)), key=_order)
        spread = [
            (p, w) for p in packets for w in range((p.fields[name] - reach) // step + 1, p.fields[name] // step + 1)
        ]
        connection = database()
        columns = {"o": [*range(len(spread))], "t": [w for _, w in spread], "k0": [key.of(p) for p, _ in spread]}
        columns |= {f"c{n}": [p.fields.get(name) for p, _ in spread] for n, name in enumerate(read)}
        _table(connection, "r", columns)
        return connection.execute(f"SELECT t, k0, {', '.join(sql)} FROM r GROUP BY t, k0").fetchall()

    return Case("window", text, oracle)


def distinct(rng: random.Random, links: list[str]) -> Case:
    """SELECT DISTINCT."""
    source, (where, holds), (epoch, of) = _source(rng, links), _where(rng), _epoch(rng)
    keys = [_key(rng) for _ in range(rng.randrange(1, 3))]
    items = "".join(f", {key.on()} AS k{n}" for n, key in enumerate(keys))
    text = f"SELECT DISTINCT {epoch} AS tb{items} FROM {source.text}{where}"

    def oracle(world: World) -> Rows:
        chosen = [p for p in source.packets(world) if holds(p)]
        return list({(of(p), *(key.of(p) for key in keys)): None for p in chosen})

    return Case("distinct", text, oracle)


def temporal(rng: random.Random, links: list[str]) -> Case:
    """Groups by two temporal attributes, which close by either."""
    source, (where, holds), (one, first), (two, second) = _source(rng, links), _where(rng), _epoch(rng), _epoch(rng)
    keys = [Scalar(two, second), _key(rng)]
    texts, sql, read = _aggregates(rng)
    items = "".join(f", {text} AS a{n}" for n, text in enumerate(texts))
    text = f"SELECT tb, other, k1{items} FROM {source.text}{where}"
    text += f" GROUP BY {one} AS tb, {two} AS other, {keys[1].on()} AS k1"
    query = f"SELECT t, k0, k1, {', '.join(sql)} FROM r GROUP BY t, k0, k1"
    return Case(
        "temporal", text, lambda w: _grouped([p for p in source.packets(w) if holds(p)], first, keys, read, query)
    )


def chain(rng: random.Random, links: list[str]) -> Case:
    """Groups over the groups of another query."""
    source, (where, holds) = _source(rng, links), _where(rng)
    fine, coarse, limit = rng.choice((1, 2, 5)), rng.choice((2, 3, 10)), rng.randrange(1, 4)
    key = _key(rng)
    text = "DEFINE { query_name 'NAME_in'; visibility 'internal'; }\n"
    text += f"SELECT tb, k0, count(*) AS n, max(len) AS m FROM {source.text}{where}"
    text += f" GROUP BY time/{fine} AS tb, {key.on()} AS k0;\n"
    text += "DEFINE { query_name 'NAME'; }\n"
    text += "SELECT c, count(*) AS groups, sum(n) AS n, min(m) AS m FROM NAME_in"
    text += f" WHERE n >= {limit} GROUP BY tb/{coarse} AS c"
    query = f"""SELECT t // {coarse} AS c, count(*), sum(n), min(m)
        FROM (SELECT t, k0, count(*) AS n, max(c0) AS m FROM r GROUP BY t, k0) WHERE n >= {limit} GROUP BY c"""

    def oracle(world: World) -> Rows:
        chosen = [p for p in source.packets(world) if holds(p)]
        return _grouped(chosen, lambda p: p.fields["time"] // fine, [key], ["len"], query)

    return Case("chain", text, oracle)


KINDS = {
    "INNER_JOIN": "JOIN",
    "LEFT_OUTER_JOIN": "LEFT JOIN",
    "RIGHT_OUTER_JOIN": "RIGHT JOIN",
    "OUTER_JOIN": "FULL JOIN",
}


def join(rng: random.Random, links: list[str]) -> Case:
    """All four kinds, by an equality of times or a band, with a key, conditions of one side and of both."""
    left, right = _source(rng, links), _source(rng, links)
    kind = rng.choice(list(KINDS))
    name = rng.choice(("srcPort", "destPort", "srcIP", "ttl", "protocol", "SYN"))
    other = "destPort" if name == "srcPort" and rng.random() < 0.5 else name
    band, low, high = rng.random() < 0.5, rng.randrange(0, 4), rng.randrange(0, 4)
    scale = rng.choice((1, 1, 2))
    one, both = boolean(rng, 1), rng.randrange(60, 900)
    filtered, related = rng.random() < 0.5, rng.random() < 0.4
    conditions = [f"A.{name} = B.{other}"]
    if band:
        conditions += [f"A.time - {low} <= B.time", f"B.time <= A.time + {high}"]
        near = f"A.t - {low} <= B.t AND B.t <= A.t + {high}"
    else:
        same = "A.time = B.time" if scale == 1 else f"A.time/{scale} = B.time/{scale}"
        conditions.insert(0, same)
        near = "A.t = B.t" if scale == 1 else f"A.t // {scale} = B.t // {scale}"
    conditions += [one.on("A.")] if filtered else []
    conditions += [f"A.len + B.len > {both}"] if related else []
    text = f"SELECT A.time AS at, B.time AS bt, A.{name} AS ak, B.{other} AS bk, A.len AS al, B.len AS bl"
    text += f" {kind} FROM {left.text} A, {right.text} B WHERE {' AND '.join(conditions)}"
    match = f"{near} AND A.k0 IS NOT DISTINCT FROM B.k0" + (f" AND A.c0 + B.c0 > {both}" if related else "")
    query = f"SELECT A.t, B.t, A.k0, B.k0, A.c0, B.c0 FROM l A {KINDS[kind]} m B ON {match}"

    def oracle(world: World) -> Rows:
        connection = database()
        for table, source, key in (("l", left, name), ("m", right, other)):
            packets = source.packets(world)
            if filtered and table == "l":
                packets = [p for p in packets if one.of(p) is True]
            columns = {"o": [*range(len(packets))], "t": [p.fields["time"] for p in packets]}
            columns |= {"k0": [p.fields.get(key) for p in packets], "c0": [p.fields["len"] for p in packets]}
            _table(connection, table, columns, key)
        return connection.execute(query).fetchall()

    return Case("join", text, oracle)


def filter_join(rng: random.Random, links: list[str]) -> Case:
    """Packets that another one of the same link comes before (O6)."""
    source, reach = _source(rng, links, ("TCP", "UDP")), rng.randrange(1, 8)
    seen = Source(source.text.replace("TCP", "UDP"), source.links, "UDP")
    name, condition = rng.choice(("srcIP", "destIP", "ttl")), boolean(rng, 1)
    text = f"SELECT R.time, R.{name}, R.len FILTER_JOIN(time, {reach}) FROM {source.text} R, {seen.text} S"
    text += f" WHERE R.{name} = S.{name} AND {condition.on('S.')}"

    def oracle(world: World) -> Rows:
        before = defaultdict(list)
        for p in seen.packets(world):
            if condition.of(p) is True:
                before[p.link, p.fields[name]].append(p.fields["time"])
        return [
            (p.fields["time"], p.fields[name], p.fields["len"])
            for p in source.packets(world)
            if any(at <= p.fields["time"] <= at + reach for at in before[p.link, p.fields[name]])
        ]

    return Case("filter_join", text, oracle)


def watchlist(rng: random.Random, links: list[str]) -> Case:
    """Packets whose address and port a list has."""
    source = _source(rng, links, ("TCP", "UDP"))
    lines = {(f"10.0.0.{rng.randrange(1, 9)}", rng.choice((22, 80, 443))): rng.randrange(1500) for _ in range(6)}
    hosts = "".join(f"{host},{port},{least}\n" for (host, port), least in lines.items())
    text = "DEFINE { query_name 'NAME_list'; filename 'FOLDER/NAME.csv'; refresh_interval '60'; }\n"
    text += "WATCHLIST FIELDS { IP address (key); uint port (key); uint least; };\n"
    text += "DEFINE { query_name 'NAME'; }\n"
    text += f"SELECT p.time, p.srcIP, p.destPort, w.least WATCHLIST_JOIN FROM {source.text} p, NAME_list w"
    text += " WHERE p.srcIP = w.address AND p.destPort = w.port AND p.len > w.least"

    def oracle(world: World) -> Rows:
        rows = []
        for p in source.packets(world):
            least = lines.get((p.fields["srcIP"], p.fields["destPort"]))
            if least is not None and p.fields["len"] > least:
                rows.append((p.fields["time"], p.fields["srcIP"], p.fields["destPort"], least))
        return rows

    return Case("watchlist", text, oracle, {"NAME.csv": hosts})


def union(rng: random.Random, links: list[str]) -> Case:
    """Two selections as one stream, by UNION or MERGE, grouped at times."""
    sources, tests = [_source(rng, links) for _ in range(2)], [boolean(rng, 1) for _ in range(2)]
    names = [rng.choice(("srcPort", "len", "ttl")) for _ in range(2)]
    text = "".join(
        f"DEFINE {{ query_name 'NAME_{n}'; visibility 'internal'; }}\n"
        f"SELECT time, {name} AS x FROM {source.text} WHERE {test.on()};\n"
        for n, (source, test, name) in enumerate(zip(sources, tests, names, strict=True))
    )
    text += "DEFINE { query_name 'NAME'; }\n"
    merged, size = rng.random() < 0.5, rng.choice((2, 5, 10))
    if merged:
        text += "MERGE a.time : b.time FROM NAME_0 a, NAME_1 b"
    else:
        text += f"SELECT tb, count(*) AS n, sum(x) AS x FROM NAME_0 UNION NAME_1 GROUP BY time/{size} AS tb"

    def oracle(world: World) -> Rows:
        rows: Rows = [
            (p.fields["time"], p.fields.get(name))
            for source, test, name in zip(sources, tests, names, strict=True)
            for p in source.packets(world)
            if test.of(p) is True
        ]
        if merged:
            return rows
        groups = defaultdict(list)
        for time, value in rows:
            groups[time // size].append(value)
        summed = {tb: [v for v in values if v is not None] for tb, values in groups.items()}
        return [(tb, len(groups[tb]), sum(values) if values else None) for tb, values in summed.items()]

    return Case("union", text, oracle)


SPREAD = {
    "NAME.fun": "MODULE 'NAME.py';\nuint UDAF spread fstring16 (uint);\nuint FUN doubled (uint);\n",
    "NAME.py": """
def doubled(value):
    return value * 2


class spread:
    def initialize(self):
        return None

    def iterate(self, state, value):
        return (value, value) if state is None else (min(state[0], value), max(state[1], value))

    def merge(self, state, other):
        if state is None or other is None:
            return other if state is None else state
        return min(state[0], other[0]), max(state[1], other[1])

    def output(self, state):
        return None if state is None else state[1] - state[0]

    def destroy(self, state):
        pass
""",
}


def own(rng: random.Random, links: list[str]) -> Case:
    """A Python function and a Python aggregate."""
    source, (where, holds), (epoch, of) = _source(rng, links), _where(rng), _epoch(rng)
    key, name = _key(rng), rng.choice(SUMMED)
    text = f"SELECT tb, k0, spread({name}) AS s, max(doubled({name})) AS d FROM {source.text}{where}"
    text += f" GROUP BY {epoch} AS tb, {key.on()} AS k0"
    query = "SELECT t, k0, max(c0) - min(c0), max(c0) * 2 FROM r GROUP BY t, k0"

    def oracle(world: World) -> Rows:
        return _grouped([p for p in source.packets(world) if holds(p)], of, [key], [name], query)

    return Case("own", text, oracle, SPREAD, ("--functions", "NAME.fun"))


def dialect(rng: random.Random, links: list[str]) -> Case:
    """Integers of 32 bits that wrap."""
    source = _source(rng, links)
    items = [wrapped(rng, 3) for _ in range(2)]
    text = "DEFINE { query_name 'NAME'; dialect 'gigascope'; }\n"
    text += f"SELECT time, {items[0].on()} AS i0, {items[1].on()} AS i1 FROM {source.text}"

    def oracle(world: World) -> Rows:
        return [(p.fields["time"], *(item.of(p) for item in items)) for p in source.packets(world)]

    return Case("dialect", text, oracle)


def rows(rng: random.Random, links: list[str]) -> Case:
    """Windows of rows: records are counted before WHERE, violations too (I4)."""
    source, (where, holds) = _source(rng, links), _where(rng)
    length, slide = rng.choice((3, 10, 16)), rng.choice((1, 3, 10))
    texts, sql, read = _aggregates(rng, SPLIT[:6])
    items = "".join(f", {text} AS a{n}" for n, text in enumerate(texts))
    shape = f"[RANGE {length} ROWS, SLIDE {slide} ROWS]"
    text = f"SELECT wid, destPort{items} FROM {source.text} {shape}{where} GROUP BY destPort"

    def oracle(world: World) -> Rows:
        records = [p for p in world.packets if p.link in source.links]
        records.sort(key=lambda p: (p.arrival, p.link, p.file, p.position))
        admitted = {(p.link, p.file, p.position) for p in source.packets(world) if holds(p)}
        spread = [
            (p, w)
            for number, p in enumerate(records)
            if (p.link, p.file, p.position) in admitted
            for w in range((number - length) // slide + 1, number // slide + 1)
        ]
        connection = database()
        columns: dict[str, list[Any]] = {
            "t": [w for _, w in spread],
            "k0": [p.fields.get("destPort") for p, _ in spread],
        }
        columns |= {f"c{n}": [p.fields.get(name) for p, _ in spread] for n, name in enumerate(read)}
        _table(connection, "r", columns)
        return connection.execute(f"SELECT t, k0, {', '.join(sql)} FROM r GROUP BY t, k0").fetchall()

    return Case("rows", text, oracle)


def closing(rng: random.Random, links: list[str]) -> Case:
    """Groups that outlive their epoch (O4): idle epochs count, up to that of the last record of the links."""
    source, (where, holds) = _source(rng, links), _where(rng)
    size, key = rng.choice((1, 2, 5)), rng.choice(("srcPort", "ttl", "protocol"))
    ends, test = rng.choice((
        ("count(*) = 0", lambda packets, kept: not packets),
        ("or_aggr(RST)", lambda packets, kept: any(p.fields.get("RST") for p in packets)),
        ("running_sum(len) > 900", lambda packets, kept: kept > 900),
    ))  # fmt: skip
    text = f"SELECT tb, {key}, count(*) AS n, running_sum(len) AS r, sum(len) AS s FROM {source.text}{where}"
    text += f" GROUP BY time/{size} AS tb, {key} CLOSING_WHEN {ends}"

    def oracle(world: World) -> Rows:
        epochs: dict[int, dict[Any, list[Packet]]] = defaultdict(lambda: defaultdict(list))
        for p in source.packets(world):
            if holds(p):
                epochs[p.fields["time"] // size][p.fields.get(key)].append(p)
        last = max((p.ts // SECOND // size for p in world.packets if p.link in source.links), default=-1)
        alive: dict[Any, int] = {}
        found: Rows = []
        for epoch in range(min(epochs, default=last + 1), last + 1):
            for name in dict.fromkeys([*alive, *epochs[epoch]]):
                packets = epochs[epoch][name]
                lengths = [p.fields["len"] for p in packets]
                alive[name] = alive.get(name, 0) + sum(lengths)
                found.append((epoch, name, len(packets), alive[name], sum(lengths) if lengths else None))
                if test(packets, alive[name]):
                    del alive[name]
        return found

    return Case("closing", text, oracle)


def sampled(rng: random.Random, links: list[str]) -> Case:
    """The sampling operator and CLEANING: engines beside one another."""
    source, size, most = _source(rng, links), rng.choice((5, 20)), rng.choice((3, 10))
    if rng.random() < 0.5:
        text = f"SELECT tb, srcPort, UMAX(sum(len), ssthreshold()) AS bytes FROM {source.text}"
        text += f" WHERE ssample(len, {most}) = TRUE"
        text += f" GROUP BY time/{size} AS tb, srcPort HAVING ssfinal_clean(sum(len)) = TRUE"
        text += " CLEANING_WHEN ssdo_clean() = TRUE CLEANING_BY ssclean_with(sum(len)) = TRUE"
    else:
        text = f"SELECT tb, ttl, destPort, count(*) AS n, sum$(len) AS all_of_it FROM {source.text}"
        text += (
            f" GROUP BY time/{size} AS tb, ttl, destPort SUPERGROUP tb, ttl CLEANING_WHEN local_count({most}) = TRUE"
        )
        text += " CLEANING_BY count(*) + FIRST(current_bucket()) > current_bucket()"
    return Case("sampled", text, None)


FAMILIES: dict[str, Callable[[random.Random, list[str]], Case]] = {
    family.__name__: family
    for family in (selection, group, cube, window, distinct, temporal, chain, join, filter_join, watchlist, union, own,
                   dialect, rows, closing, sampled)
}  # fmt: skip
