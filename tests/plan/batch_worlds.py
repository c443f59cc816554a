"""Random worlds for the batch evaluator: packets of all kinds over many short epochs, as rows of stored columns."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import duckdb
import pyarrow as pa

from lowwater.catalog.builtin import CATALOG
from lowwater.catalog.functions import Catalog
from lowwater.catalog.schemas import TYPES
from lowwater.catalog.values import format_ip, pack_ip
from tests.database import database
from tests.plan.batch_rows import Packet, World

SECOND = 1_000_000_000
BASE = 1_767_225_600 * SECOND
GAPS = (0, 0, 1, 300_000_000, SECOND, 2 * SECOND, 7 * SECOND)
LATE = (0, 0, 0, 0, 1, 400_000_000, SECOND, 9 * SECOND)
SKEW = 2 * SECOND
FAMILIES = ([pack_ip(f"10.0.0.{n}") for n in (1, 2, 9)], [pack_ip(f"2001:db8::{n}") for n in (1, 2)])
PAYLOADS = (
    None, "", "GET / HTTP/1.1\r\nHost: WWW.EXAMPLE.ORG\r\n", "GET /a HTTP/1.1\r\nHOST: A.B:80\r\n",
    "POST / HTTP/1.1\r\nHost: C\r\n", "GET nothing", "\xff\x00bytes",
)  # fmt: skip
FLAGS = (2, 18, 16, 17, 4, 2, 18)


def world(
    seed: int, links: Sequence[str], most: int = 40, lull: int = 45, catalog: Catalog = CATALOG, parts: int = 3
) -> World:
    """The world of a seed."""
    random = Random(seed)
    found = {link: _link(random, link, random.choice((most, most, most // 2, 3)), lull) for link in sorted(links)}
    watch = [{"id": n, "address": address, "name": f"n{n}"} for n, address in enumerate([*FAMILIES[0], *FAMILIES[1]])]
    return World(found, {"watch": watch[1:4] + watch[2:3]}, {}, seed, parts, catalog)


def _link(random: Random, link: str, count: int, lull: int) -> list[Packet]:
    clock, found = BASE + random.choice((0, 0, 3 * SECOND + 17)), []
    gaps = (*GAPS, lull * SECOND)
    for position in range(count):
        # Gaps of a thousandth keep the packets of a link together, so that the epochs hold several.
        clock += random.choice(gaps) if random.random() < 0.4 else random.randrange(200_000_000)
        stamp = max(BASE, clock - random.choice(LATE))
        values = {**dict.fromkeys(TYPES), **_packet(random), "timestamp": stamp}
        del values["interface"]
        found.append(Packet(link, position, clock, clock - stamp <= SKEW, values))
    return found


def _packet(random: Random) -> dict[str, Any]:
    size = random.choice((40, 41, 60, 64, 1500))
    values: dict[str, Any] = {"len": size, "caplen": min(size, random.choice((41, 96))), "payload": None}
    values |= {"srcMAC": random.choice((1, 2)), "destMAC": 0x020000000001}
    kind = random.choice(("tcp", "tcp", "tcp", "udp", "icmp", "arp"))
    if kind == "arp":
        return values | {"ether_type": 0x0806}
    six = random.random() < 0.25
    hosts = FAMILIES[six]
    values |= {"srcIP": random.choice(hosts), "destIP": random.choice(hosts), "ipversion": 6 if six else 4}
    values |= {"ttl": random.choice((1, 64)), "tos": 0, "offset": None if six else random.choice((0, 0, 0, 8))}
    values |= {"total_length": size - 14, "id": random.randrange(3), "ether_type": 0x86DD if six else 0x0800}
    values["protocol"] = {"tcp": 6, "udp": 17, "icmp": 58 if six else 1}[kind]
    if kind == "icmp":
        return values | {"icmp_type": random.choice((0, 8)), "icmp_code": 0}
    values |= {"srcPort": random.choice((53, 80)), "destPort": random.choice((53, 80))}
    values["payload"] = random.choice(PAYLOADS)
    if kind == "tcp":
        values |= {"flags": random.choice(FLAGS), "window": 5}
        values |= {"sequence_number": random.choice((1, 2)), "ack_number": random.choice((2, 3))}
    return values


PLACED = [("link", pa.string()), ("position", pa.int64()), ("arrival", pa.int64()), ("admitted", pa.bool_())]
PLACED += [(name, pa.string()) for name in ("srcIP", "destIP", "payload")]


def oracle(made: World) -> duckdb.DuckDBPyConnection:
    """A DuckDB with all records, and the admitted ones as `p`; addresses as text, those of IPv6 above those of IPv4."""
    connection = database()
    connection.execute("SET error_on_division_by_zero = false")
    columns = ("timestamp", "len", "caplen", "protocol", "srcPort", "destPort", "flags", "ttl", "offset", "ipversion")
    rows = [
        (
            packet.link,
            packet.position,
            packet.arrival,
            packet.admitted,
            *(text(packet.values[name]) for name in ("srcIP", "destIP")),
            packet.values["payload"],
            packet.timestamp // SECOND,
            *(packet.values[name] for name in columns),
        )
        for packets in made.links.values()
        for packet in packets
    ]
    kinds = [(name, pa.int64()) for name in ("time", *columns)]
    insert(connection, "records", pa.schema(PLACED + kinds), rows)
    connection.execute("CREATE TEMP VIEW p AS SELECT * FROM records WHERE admitted")
    listed = [(text(entry["address"]), entry["id"], entry["name"]) for entry in made.watch["watch"]]
    insert(connection, "w", pa.schema([("address", pa.string()), ("id", pa.int64()), ("name", pa.string())]), listed)
    return connection


def insert(
    connection: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Makes a table of the rows, as one piece: DuckDB takes longer for each row that comes alone than for all."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    connection.register("given", pa.table(arrays, schema=schema))
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM given")
    connection.unregister("given")


def text(value: Any) -> Any:
    """An address as SQL has it: texts of these few order as the addresses do, once families are apart."""
    if isinstance(value, bytes):
        return format_ip(value) if value[0] == 4 else f"~{format_ip(value)}"
    return value
