"""DNS and HTTP fields against dpkt, cut anywhere, of any bytes; `test_real_captures` has tshark's."""

from __future__ import annotations

import re
from typing import Any

import dpkt
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from lowwater.capture.content.applications import APPLICATIONS, application_fields, dns_fields, http_fields
from lowwater.capture.content.hello import LONGEST_TEXT, spread

QUESTION = bytes.fromhex("1a2b8183000100000001000003777777076578616d706c6503636f6d00001c0001")
"""A response of rcode 3 without answers: www.example.com, type 28."""
REQUEST = (
    b"POST /a%20b?c=d HTTP/1.1\r\nhost:  a.example \r\nX: y\r\nUser-Agent: curl/7.8\r\nHost: b\r\n\r\nUser-Agent: body"
)
UDP, TCP = 17, 6

Packet = tuple[int | None, int | None, int | None, bytes]
"""Protocol, ports, payload."""


def fields_of(packets: list[Packet], headers: int = 42, cut: int | None = None) -> list[dict[str, Any]]:
    """The fields of payloads behind `headers` bytes of something else; of each, `cut` bytes are captured."""
    buffer, begins, captured = b"", [], []
    for _, _, _, payload in packets:
        begins.append(len(buffer))
        kept = payload[:cut]
        buffer += b"\x01" * headers + kept
        captured.append(headers + len(kept))
    batch = pa.record_batch(
        {
            "caplen": pa.array(captured, pa.int32()),
            "protocol": pa.array([packet[0] for packet in packets], pa.int32()),
            "srcPort": pa.array([packet[1] for packet in packets], pa.int32()),
            "destPort": pa.array([packet[2] for packet in packets], pa.int32()),
            "payload_offset": pa.array([None if packet[0] is None else headers for packet in packets], pa.int32()),
            "payload_length": pa.array([len(packet[3]) for packet in packets], pa.int32()),
        }
    )
    columns = application_fields(np.frombuffer(bytearray(buffer), np.uint8), np.array(begins, np.int64), batch)
    found = pa.record_batch(columns)
    found.validate(full=True)
    assert found.schema == APPLICATIONS
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def said(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


ANSWERED = {"dns_id": 0x1A2B, "dns_response": 1, "dns_rcode": 3, "dns_answers": 0}
ASKED = {"dns_query": "www.example.com", "dns_type": 28}


@pytest.mark.slow
def test_which_packets_are_looked_at() -> None:
    tcp = len(QUESTION).to_bytes(2, "big") + QUESTION
    packets: list[Packet] = [
        (UDP, 53, 40_000, QUESTION), (UDP, 5353, 5353, QUESTION), (UDP, 40_000, 5355, QUESTION),
        (UDP, 40_000, 54, QUESTION), (TCP, 53, 40_000, tcp), (TCP, 40_000, 8_080, REQUEST),
        (UDP, 40_000, 8_080, REQUEST), (TCP, 8_080, 40_000, b"HTTP/1.0 404 Not Found\r\n"),
        (TCP, None, None, b"GET /\r\n"), (None, None, None, b""), (132, 53, 53, QUESTION),
    ]  # fmt: skip
    request = {"http_method": "POST", "http_uri": "/a%20b?c=d", "http_host": "a.example", "http_user_agent": "curl/7.8"}
    dns = ANSWERED | ASKED
    expected: list[dict[str, Any]] = [dns, dns, dns, {}, dns, request, {}, {"http_status": 404}]
    expected += [{"http_method": "GET", "http_uri": "/"}, {}, {}]
    assert [said(row) for row in fields_of(packets)] == expected
    assert fields_of([]) == []
    assert [said(row) for row in fields_of([(UDP, 1, 2, b"")] * 3)] == [{}] * 3


@pytest.mark.parametrize(
    ("payload", "ports"),
    [(QUESTION, 53), (REQUEST, 80), (b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", 80), (b"GET /a b HTTP/1.1\r\n\r\n", 80)],
)
def test_a_cut_message_shows_what_is_whole(payload: bytes, ports: int) -> None:
    protocol = UDP if ports == 53 else TCP
    (whole,) = fields_of([(protocol, 40_000, ports, payload)])
    before: set[str] = set()
    for cut in range(len(payload) + 1):
        (row,) = fields_of([(protocol, 40_000, ports, payload)], cut=cut)
        assert said(row).items() <= said(whole).items(), cut
        assert before <= said(row).keys()
        before = set(said(row))
    assert before == set(said(whole))


def test_names_are_written_as_in_zone_files() -> None:
    labels = [b"J\xf6rg's TV", b"a.b", b"\x00\\"]
    wire = b"".join(bytes([len(label)]) + label for label in labels) + b"\x00\x00\x01\x00\x01"
    fields = dns_fields(QUESTION[:12] + wire, tcp=False)
    assert fields["dns_query"] == "J\\246rg's\\032TV.a\\.b.\\000\\\\"
    assert dns_fields(QUESTION[:12] + b"\x00\x00\x02\x00\x01", tcp=False)["dns_query"] == "."


def test_fields_of_http_are_bounded_and_keep_their_bytes() -> None:
    long = b"GET /" + b"x" * 5_000 + b" HTTP/1.1\r\nHost: h\xe9\xff\r\nUser-Agent:" + b"y" * 30_000 + b"\r\n\r\n"
    (row,) = fields_of([(TCP, 1, 80, long)])
    assert row["http_uri"] == "/" + "x" * (LONGEST_TEXT - 1)
    assert row["http_host"] == "h\xe9\xff"
    assert row["http_user_agent"] is None  # it ends beyond the bytes that are looked at


@pytest.mark.slow
@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: QUESTION[:13] + tail), st.booleans())
def test_any_bytes_are_read_as_dpkt_reads_them_or_not_at_all(payload: bytes, tcp: bool) -> None:
    fields = dns_fields(payload, tcp)
    message = payload[2:] if tcp else payload
    if not tcp and len(message) >= 12:
        header = dpkt.dns.DNS(message[:4] + bytes(8))
        assert (fields["dns_id"], fields["dns_response"]) == (header.id, header.qr)
    try:
        known = dpkt.dns.DNS(message)
    except Exception:  # noqa: BLE001 - dpkt raises many kinds of error, none of them ours
        return
    if not tcp and known.qd and "\\" not in fields.get("dns_query", "\\"):
        assert (fields["dns_query"], fields["dns_type"]) == (known.qd[0].name or ".", known.qd[0].type)


@given(st.binary(max_size=200).map(lambda tail: b"GET / HTTP/1.1\r\n" + tail) | st.binary(max_size=200))
def test_any_bytes_are_read_as_http_or_not_at_all(payload: bytes) -> None:
    fields = http_fields(payload)
    assert set(fields) <= set(APPLICATIONS.names)
    try:
        known = dpkt.http.Request(payload.split(b"\r\n\r\n")[0] + b"\r\n\r\n")
    except Exception:  # noqa: BLE001 - dpkt raises many kinds of error, none of them ours
        return
    if fields and b"\r\n\r\n" in payload and payload.isascii() and re.fullmatch(rb"[ -~\r\n]*", payload):
        assert (fields["http_method"], fields["http_uri"]) == (known.method, known.uri)


@pytest.mark.slow
@given(st.data(), st.integers(1, 70), st.sampled_from([pa.int32(), pa.int64(), pa.string()]))
def test_values_of_few_rows_are_spread_as_arrow_takes_them(data: st.DataObject, rows: int, kind: pa.DataType) -> None:
    chosen = sorted(data.draw(st.sets(st.integers(0, rows - 1))))
    value = st.none() | (st.text(max_size=5) if kind == pa.string() else st.integers(-(1 << 31), (1 << 31) - 1))
    values = pa.array(data.draw(st.lists(value, min_size=len(chosen), max_size=len(chosen))), kind)
    places = pa.array([chosen.index(row) if row in chosen else None for row in range(rows)], pa.int64())
    found = spread(values, np.array(chosen, np.int64), rows)
    found.validate(full=True)
    assert found.equals(values.take(places))
