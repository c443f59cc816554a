"""The questions of README, examples, cookbook and tutorial over real captures: what tshark counts, to the row."""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from lowwater.catalog.values import pack_ip
from lowwater.instants import parse_moment
from tests.docs.book import ROOT, blocks
from tests.replay.support import lowwater

pytestmark = [
    pytest.mark.captures,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is absent: apt install tshark"),
]
CAPTURES = (
    "traffic/ajbanjara+Wireshark__SkypeIRC.cap",
    "breadth/ntop+nDPI__ocs.pcap",
    "breadth/ajbanjara+Wireshark__cap1.pcap",
)
COOKBOOK = {
    name: block.text
    for block in blocks(ROOT / "docs" / "cookbook.md")
    if block.words[:2] == ("gsql", "run")
    for name in re.findall(r"query_name '(\w+)'", block.text)[-1:]
}
EXAMPLES = {
    path.stem: path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").glob("**/*.gsql"))
    if path.stem != "transfers"  # reads no packets
}
QUESTIONS = {**EXAMPLES, **COOKBOOK}
SECOND = 1_000_000_000
FIELDS = {
    "stamp": "frame.time_epoch", "len": "frame.len", "ip4": "ip.src", "ip6": "ipv6.src", "to4": "ip.dst",
    "to6": "ipv6.dst", "proto4": "ip.proto", "proto6": "ipv6.nxt", "hop": "ipv6.hopopts.nxt",
    "sport_tcp": "tcp.srcport", "dport_tcp": "tcp.dstport", "sport_udp": "udp.srcport", "dport_udp": "udp.dstport",
    "flags": "tcp.flags", "seq": "tcp.seq_raw", "ack": "tcp.ack_raw", "payload": "tcp.len", "dns_id": "dns.id",
    "response": "dns.flags.response", "hello": "tls.handshake.type", "name": "tls.handshake.extensions_server_name",
    "ja3": "tls.handshake.ja3", "asked": "dns.qry.name", "rcode": "dns.flags.rcode", "method": "http.request.method",
    "host": "http.host", "status": "http.response.code",
}  # fmt: skip
FIN, SYN, RST, ACK = 1, 2, 4, 16
TOLD = ("retransmission", "duplicate_ack", "out_of_order", "zero_window")
"""What tshark says of segments, in the order of the columns of conversations."""


class Packet(NamedTuple):
    """What tshark says of a packet; numbers are None where it has none."""

    stamp: int
    len: int
    src: str | None
    dest: str | None
    protocol: int | None
    sport: int | None
    dport: int | None
    flags: int
    seq: int | None
    ack: int | None
    payload: int
    dns_id: int | None
    response: bool
    hello: int | None
    name: str | None
    ja3: str | None
    asked: str | None
    rcode: int | None
    method: str | None
    host: str | None
    status: int | None
    stream: str = ""
    told: frozenset[str] = frozenset()

    def epoch(self, seconds: int) -> int:
        """The number of its epoch of a length."""
        return self.stamp // SECOND // seconds


def packets_of(path: Path) -> list[Packet]:
    """The packets of a capture, in its order."""
    # Every packet by itself: tshark does not look into segments that it takes for repeated ones.
    settings = ("ip.defragment:FALSE", "tcp.desegment_tcp_streams:FALSE", "tcp.analyze_sequence_numbers:FALSE")
    alone = _read(path, settings, list(FIELDS.values()))
    told = _read(path, settings[:1], ["tcp.stream", *(f"tcp.analysis.{name}" for name in TOLD)])
    return [
        _packet(dict(zip(FIELDS, row, strict=True)))._replace(
            stream=stream, told=frozenset(name for name, cell in zip(TOLD, cells, strict=True) if cell)
        )
        for row, (stream, *cells) in zip(alone, told, strict=True)
    ]


def _read(path: Path, settings: Sequence[str], fields: Sequence[str]) -> list[list[str]]:
    words = [part for setting in settings for part in ("-o", setting)]
    words += [part for name in fields for part in ("-e", name)]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-E", "separator=|", "-E", "occurrence=f", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return [*csv.reader(done.stdout.splitlines(), delimiter="|")]


def _packet(row: dict[str, str]) -> Packet:
    def number(name: str) -> int | None:
        return int(row[name], 0) if row[name] else None

    def first(*names: str) -> int | None:
        return next((value for name in names if (value := number(name)) is not None), None)

    protocol = first("proto4", "hop", "proto6")
    of_tcp, of_udp = protocol == 6, protocol == 17
    ports = [
        number(f"{side}_tcp") if of_tcp else number(f"{side}_udp") if of_udp else None for side in ("sport", "dport")
    ]
    return Packet(
        int(Decimal(row["stamp"]) * SECOND), int(row["len"]), row["ip4"] or row["ip6"] or None,
        row["to4"] or row["to6"] or None, protocol, *ports, (number("flags") or 0) if of_tcp else 0,
        number("seq") if of_tcp else None, number("ack") if of_tcp else None, (number("payload") or 0) if of_tcp else 0,
        number("dns_id") if of_udp else None, row["response"] in ("1", "True"), number("hello") if of_tcp else None,
        row["name"] or None, row["ja3"] or None, row["asked"] or None, number("rcode"), row["method"] or None,
        row["host"] or None, number("status"),
    )  # fmt: skip


Rows = Counter[tuple[Any, ...]]
Oracle = Callable[[list[Packet]], Iterable[tuple[Any, ...]]]


def of_tcp(packets: list[Packet]) -> list[Packet]:
    return [each for each in packets if each.protocol == 6]


def grouped(packets: Iterable[Packet], key: Callable[[Packet], tuple[Any, ...]]) -> dict[tuple[Any, ...], list[Packet]]:
    groups: dict[tuple[Any, ...], list[Packet]] = defaultdict(list)
    for each in packets:
        groups[key(each)].append(each)
    return groups


def latencies(length: int, least: int) -> Oracle:
    """Of each question its first answer within two seconds, in ms, by server and epoch."""

    def rows(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
        asked = {
            (each.stamp, each.src, each.sport, each.dest, each.dns_id)
            for each in packets
            if each.dns_id is not None and each.dport == 53 and not each.response
        }
        answers = grouped(
            (each for each in packets if each.dns_id is not None and each.sport == 53 and each.response),
            lambda each: (each.dest, each.dport, each.src, each.dns_id),
        )
        found: dict[tuple[Any, ...], list[int | None]] = defaultdict(list)
        for stamp, *question in asked:
            late = [
                each.stamp - stamp for each in answers.get(tuple(question), ()) if 0 <= each.stamp - stamp <= 2 * SECOND
            ]
            server = question[2]
            found[stamp // SECOND // length, server].append(min(late) // 1_000_000 if late else None)
        for (epoch, server), values in found.items():
            known = [value for value in values if value is not None]
            mean = int(sum(known) / len(known)) if known else None
            if len(values) >= least:
                yield epoch * length, server, len(values), len(values) - len(known), mean, max(known, default=None)

    return rows


def volume(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    for (epoch,), group in grouped((each for each in packets if each.src), lambda each: (each.epoch(60),)).items():
        yield epoch * 60, len(group)


def tries(packets: list[Packet]) -> dict[tuple[Any, ...], list[Packet]]:
    asked = [each for each in of_tcp(packets) if each.flags & SYN and not each.flags & ACK]
    return grouped(asked, lambda each: (each.epoch(60), each.src))


def scan(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    for (epoch, source), group in tries(packets).items():
        ports = len({each.dport for each in group})
        if ports >= 20:
            yield epoch * 60, "main1", source, len(group), len({each.dest for each in group}), ports


def scans(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    for (epoch, source), group in tries(packets).items():
        ports, hosts = len({each.dport for each in group}), len({each.dest for each in group})
        if ports > 1 or hosts > 1:
            yield epoch * 60, source, len(group), ports, hosts


def drift(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    same = grouped(
        (each for each in of_tcp(packets) if each.flags & SYN),
        lambda each: (each.src, each.dest, each.sport, each.dport, each.seq),
    )
    pairs = [
        (a.stamp, b.stamp) for group in same.values() for a in group for b in group if 0 <= b.stamp - a.stamp <= SECOND
    ]
    found = defaultdict(list)
    for first, second in pairs:
        found[first // SECOND // 60].append((second - first) // 1000)
    for epoch, values in found.items():
        yield epoch * 60, len(values), min(values), max(values)


def talkers(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    minutes: Counter[int] = Counter()
    for each in packets:
        minutes[each.epoch(60)] += each.len if each.src else 0
    for (epoch, source), group in grouped(
        (each for each in packets if each.src), lambda each: (each.epoch(60), each.src)
    ).items():
        size = sum(each.len for each in group)
        if size * 3 >= minutes[epoch]:
            yield epoch * 60, source, size, size * 100 // minutes[epoch]


def largest(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    sent: dict[int, list[tuple[int, bytes, str, int]]] = defaultdict(list)
    of_hosts = grouped([each for each in packets if each.src], lambda each: (each.epoch(60) * 60, each.src))
    for (begin, source), of in of_hosts.items():
        sent[begin].append((-sum(each.len for each in of), pack_ip(source), source, len(of)))
    for begin, senders in sent.items():
        for size, _, source, number in sorted(senders)[:10]:
            yield begin, source, -size, number


def shares(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    hosts: Counter[tuple[Any, ...]] = Counter()
    for each in of_tcp(packets):
        hosts[each.epoch(60), each.src] += each.len
    for (epoch, source, port), group in grouped(
        of_tcp(packets), lambda each: (each.epoch(60), each.src, each.dport)
    ).items():
        size = sum(each.len for each in group)
        yield epoch * 60, source, port, size, size * 100 // hosts[epoch, source]


def days(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    berlin = ZoneInfo("Europe/Berlin")
    dates = grouped(
        (each for each in packets if each.src), lambda each: datetime.fromtimestamp(each.stamp // SECOND, berlin).date()
    )
    for day, group in dates.items():
        yield (day - date(1970, 1, 1)).days, len(group), sum(each.len for each in group)


def round_trips(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    syns = [each for each in of_tcp(packets) if each.flags & SYN and not each.flags & ACK]
    answers = grouped(
        (each for each in of_tcp(packets) if each.flags & SYN and each.flags & ACK),
        lambda each: (each.dest, each.src, each.dport, each.sport, each.ack),
    )
    found = defaultdict(list)
    for each in syns:
        flow = each.src, each.dest, each.sport, each.dport, (each.seq or 0) + 1
        after = [late for answer in answers.get(flow, ()) if 0 <= (late := answer.stamp - each.stamp) <= 3 * SECOND]
        if after:
            found[each.epoch(60), each.dest].append(min(after) // 1_000_000)
    for (epoch, server), values in found.items():
        yield epoch * 60, server, len(values), min(values), max(values)


def unanswered(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    answers = grouped(
        (each for each in of_tcp(packets) if each.flags & SYN and each.flags & ACK),
        lambda each: (each.dest, each.src, each.dport, each.sport),
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for each in of_tcp(packets):
        if each.flags & SYN and not each.flags & ACK:
            late = [
                answer.stamp - each.stamp for answer in answers.get((each.src, each.dest, each.sport, each.dport), ())
            ]
            if not any(0 <= after <= 3 * SECOND for after in late):
                found[each.epoch(60), each.src, each.dest, each.dport] += 1
    for (epoch, *flow), count in found.items():
        yield epoch * 60, *flow, count


def answered(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    answers = grouped(
        (each for each in of_tcp(packets) if each.flags & SYN and each.flags & ACK),
        lambda each: (each.dest, each.src, each.dport, each.sport),
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for each in of_tcp(packets):
        if each.flags & SYN and not each.flags & ACK:
            met = answers.get((each.src, each.dest, each.sport, each.dport), ())
            if any(0 <= answer.stamp - each.stamp <= 3 * SECOND for answer in met):
                found[each.epoch(60), each.dest, each.dport] += 1
    for (epoch, *server), count in found.items():
        yield epoch * 60, *server, count


def new_hosts(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    hosts = grouped(of_tcp(packets), lambda each: (each.epoch(60), each.src))
    for (epoch, source), group in hosts.items():
        if (epoch - 1, source) not in hosts:
            yield epoch * 60, source, len(group)


def repeated(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    flows = grouped(of_tcp(packets), lambda each: (each.epoch(60), each.src, each.dest, each.sport, each.dport))
    for (epoch, *flow), group in flows.items():
        counts = [sum(name in each.told for each in group) for name in ("retransmission", "out_of_order")]
        yield epoch * 60, *flow, *counts, sum(each.payload > 0 for each in group)


def handshakes_of(stream: list[Packet]) -> Iterable[tuple[Packet, int]]:
    """The last segment of the handshake of a stream, and the time that it took, ns."""
    asked = None
    for each in stream:
        if each.flags & (SYN | ACK) == SYN:
            asked = each.stamp
        elif each.flags & (SYN | ACK) == ACK and asked is not None and each.stamp > asked:
            yield each, each.stamp - asked
            return


def handshake_times(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    found = defaultdict(list)
    for stream in grouped(of_tcp(packets), lambda each: (each.stream,)).values():
        for each, took in handshakes_of(stream):
            if not each.flags & RST:
                found[each.epoch(60), each.dest].append(took)
    for (epoch, server), values in found.items():
        yield epoch * 60, server, max(values) // 1000, int(sum(values) / len(values)) // 1000, len(values)


def conversations(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    day = 86_400 * 1_000_000
    stamps = sorted(each.stamp // 1000 for each in packets)
    for stream in grouped(of_tcp(packets), lambda each: (each.stream,)).values():
        first, latest = stream[0], max(each.stamp for each in stream) // 1000
        ends = (first.src, first.sport), (first.dest, first.dport)
        client, server = reversed(ends) if first.flags & (SYN | ACK) == SYN | ACK else ends
        sides = [[each for each in stream if (each.src, each.sport) == end] for end in (client, server)]
        seen = [0, 0]
        for at, side in enumerate(sides):
            for each in side:
                seen[at] |= each.flags
        after = bisect_left(stamps, latest + 15_000_000)
        told = after < len(stamps) and stamps[after] // day <= first.stamp // 1000 // day + 1
        ended = "idle" if told else "open"
        ended = "reset" if (seen[0] | seen[1]) & RST else "closed" if seen[0] & seen[1] & FIN else ended
        took = next((took for _, took in handshakes_of(stream)), None)
        counts = [sum(each.len for each in side) for side in sides] + [len(side) for side in sides]
        unusual = [sum(name in each.told for each in side) for name in TOLD for side in sides]
        times = [Decimal(time) / 1_000_000 for time in (first.stamp // 1000, latest)]
        yield times[0], *client, *server, ended, *counts, took, *unusual, *seen, times[1], "main1"


def connections(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    flows = grouped(of_tcp(packets), lambda each: (each.src, each.sport, each.dest, each.dport))
    for flow, group in flows.items():
        minutes = grouped(group, lambda each: (each.epoch(60),))
        in_all, before = 0, None
        for (epoch,), part in sorted(minutes.items()):
            ended = before is None or epoch != before[0] + 1 or before[1]
            size = sum(each.len for each in part)
            in_all = size if ended else in_all + size
            before = epoch, any(each.flags & FIN for each in part)
            yield epoch * 60, *flow, size, in_all


def names(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    hellos = [each for each in packets if each.hello == 1]
    for (epoch, source, name), group in grouped(hellos, lambda each: (each.epoch(60), each.src, each.name)).items():
        yield epoch * 60, source, name, len(group)


def lonely(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    hellos = [each for each in packets if each.hello == 1 and each.ja3]
    for (epoch, ja3), group in grouped(hellos, lambda each: (each.epoch(300), each.ja3)).items():
        if len({each.src for each in group}) == 1:
            yield epoch * 300, ja3, group[0].src, len(group)


def pairs(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    def ends(each: Packet) -> tuple[str, ...]:
        return tuple(sorted((str(each.src), str(each.dest)), key=pack_ip))

    talking = [each for each in packets if each.src]
    for (epoch, a, b), group in grouped(talking, lambda each: (each.epoch(60), *ends(each))).items():
        of_a = sum(each.len for each in group if each.src == a != b)
        yield epoch * 60, a, b, sum(each.len for each in group), len(group), of_a


def protocols(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    berlin = ZoneInfo("Europe/Berlin")
    talking = [each for each in packets if each.src]
    dates = grouped(talking, lambda each: (datetime.fromtimestamp(each.stamp // SECOND, berlin).date(),))
    for (day,), of_day in dates.items():
        whole = sum(each.len for each in of_day)
        for (protocol,), group in grouped(of_day, lambda each: (each.protocol,)).items():
            size = sum(each.len for each in group)
            yield (day - date(1970, 1, 1)).days, protocol, size, size * 100 // whole


def percentile(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    months: dict[datetime, list[int]] = defaultdict(list)
    for (slot,), group in grouped(packets, lambda each: (each.epoch(300),)).items():
        day = datetime.fromtimestamp(slot * 300, UTC).replace(hour=0, minute=0)
        months[day.replace(day=1)].append(sum(each.len for each in group) * 8 // 300)
    for month, rates in months.items():
        rank = -(-len(rates) * 95 // 100)
        yield int(month.timestamp()), sorted(rates)[rank - 1], max(rates), len(rates)


def dns_times(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    for begin, server, questions, unanswered, mean, most in latencies(600, 0)(packets):
        yield begin, server, most, mean, questions, unanswered


def dns_failures(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    failed = [each for each in packets if each.dns_id is not None and each.response and each.rcode]
    key = grouped(failed, lambda each: (each.epoch(60), each.src, each.asked, each.rcode))
    for (epoch, *what), group in key.items():
        yield epoch * 60, *what, len(group)


def slow_http(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    answers = grouped(
        (each for each in of_tcp(packets) if each.status is not None),
        lambda each: (each.dest, each.src, each.dport, each.sport, each.seq),
    )
    found = defaultdict(list)
    for each in of_tcp(packets):
        begun = answers.get((each.src, each.dest, each.sport, each.dport, each.ack), ()) if each.method else ()
        after = [late for answer in begun if 0 <= (late := answer.stamp - each.stamp) <= 30 * SECOND]
        if after:
            found[each.epoch(60), each.dest, each.host].append(min(after) // 1_000_000)
    for (epoch, server, host), values in found.items():
        yield epoch * 60, server, host, max(values), int(sum(values) / len(values)), len(values)


def beacons(packets: list[Packet]) -> Iterable[tuple[Any, ...]]:
    asked = [each for each in of_tcp(packets) if each.flags & SYN and not each.flags & ACK]
    called = grouped(asked, lambda each: (each.epoch(3600), each.src, each.dest, each.dport))
    for (epoch, *flow), group in called.items():
        minutes = len({each.epoch(60) for each in group})
        if minutes >= 3 and len(group) <= 2 * minutes:
            yield epoch * 3600, *flow, len(group), minutes


ORACLES: dict[str, Oracle] = {
    "dns_latency": latencies(600, 10),
    "slow_dns": latencies(120, 0),
    "volume": volume,
    "scan": scan,
    "drift": drift,
    "talkers": talkers,
    "largest": largest,
    "shares": shares,
    "days": days,
    "scans": scans,
    "round_trips": round_trips,
    "unanswered": unanswered,
    "answered": answered,
    "missed": lambda packets: (),  # as above of two links that differ: a test of its own
    "new_hosts": new_hosts,
    "repeated": repeated,
    "handshake_times": handshake_times,
    "conversations": conversations,
    "connections": connections,
    "differences": lambda packets: (),  # both links have the same packets
    "names": names,
    "pairs": pairs,
    "protocols": protocols,
    "percentile": percentile,
    "dns_times": dns_times,
    "dns_failures": dns_failures,
    "slow_http": slow_http,
    "beacons": beacons,
    "lonely": lonely,
}


@pytest.mark.parametrize("name", CAPTURES)
def test_what_one_link_missed_is_what_tshark_has_of_the_other_alone(
    name: str, captures_dir: Path, tmp_path: Path
) -> None:
    """Of a link that lost every fifth packet."""
    path, part = captures_dir / name, tmp_path / "part.pcap"
    whole = packets_of(path)
    lost = [str(number) for number in range(1, len(whole) + 1, 5)]
    shutil.copy(path, part)
    for begin in range(0, len(lost), 500):  # editcap takes 512 numbers; the last ones first, so that no number moves
        numbers = lost[::-1][begin : begin + 500]
        subprocess.run(["editcap", str(part), str(tmp_path / "next.pcap"), *numbers], check=True, timeout=60)
        (tmp_path / "next.pcap").replace(part)

    def segment(each: Packet) -> tuple[Any, ...]:
        return each.src, each.dest, each.sport, each.dport, each.seq, each.ack, each.flags, each.payload

    seen = grouped(of_tcp(packets_of(part)), segment)
    missed = [
        each
        for each in of_tcp(whole)
        if not any(abs(other.stamp - each.stamp) <= SECOND for other in seen.get(segment(each), ()))
    ]
    wanted = Counter(
        {
            (str(epoch * 60), *map(str, flow), str(len(group)), str(sum(each.len for each in group))): 1
            for (epoch, *flow), group in grouped(
                missed, lambda each: (each.epoch(60), each.src, each.dest, each.dport)
            ).items()
        }
    )
    links = [word for link, file in (("main1", path), ("main2", part)) for word in ("--capture", f"{link}={file}")]
    said = lowwater("ask", "missed", *links, "--format", "csv")
    assert said.code == 0, said.err
    (tmp_path / "rows.csv").write_text(said.out, encoding="utf-8")
    assert rows_of(tmp_path / "rows.csv") == wanted and len(wanted) > 3


def test_every_question_has_its_oracle_and_says_what_it_counts() -> None:
    assert {*QUESTIONS} == {*ORACLES}
    for name, text in QUESTIONS.items():
        assert re.search(r"^-- (Counts|Sums) .*\.$", text, re.M), name
    for page in ("README.md", "docs/tutorial.md"):
        shown = re.findall(r"^```sql[^\n]*\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
        assert shown and all(any(part.strip() in text for text in EXAMPLES.values()) for part in shown), page


def rows_of(path: Path) -> Rows:
    """The rows of a file of results, with instants in seconds since 1970."""
    with path.open(newline="", encoding="utf-8") as file:
        _, *rows = csv.reader(file)
    return Counter(tuple(map(in_seconds, row)) for row in rows)


def in_seconds(cell: str) -> str:
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", cell):
        return cell
    return str(Decimal(parse_moment(cell)) / 1_000_000)


def shown(rows: Iterable[tuple[Any, ...]]) -> Rows:
    return Counter(tuple("" if value is None else str(value) for value in row) for row in rows)


@pytest.mark.parametrize("name", CAPTURES)
def test_questions_over_real_captures_are_answered_as_tshark_does(
    name: str, captures_dir: Path, tmp_path: Path
) -> None:
    path = captures_dir / name
    packets = packets_of(path)
    answered = 0
    for question, text in QUESTIONS.items():
        text = re.sub(r"\b(servers|inside)\.", "main1.", text)
        text = re.sub(r"\boutside\.", "main2.", text)
        links = ("main1", "main2") if "main2." in text else ("main1",)
        (tmp_path / f"{question}.gsql").write_text(text, encoding="utf-8")
        words = [word for link in links for word in ("--capture", f"{link}={path}", "--skew", f"{link}=1h")]
        out = tmp_path / question
        said = lowwater("run", tmp_path / f"{question}.gsql", *words, "--engine", "reference", "--out", out)
        assert said.code == 0, said.err
        found, wanted = rows_of(out / f"{question}.csv"), shown(ORACLES[question](packets))
        missing, extra = list((wanted - found).items())[:3], list((found - wanted).items())[:3]
        assert found == wanted, f"{question}: missing {missing}, not in tshark {extra}"
        answered += bool(found)
    assert answered > len(QUESTIONS) // 2
