"""Sends traces to a collector of OpenTelemetry, by the official exporter of the extra `metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import lowwater
from lowwater.errors import LowwaterError
from lowwater.replay.telemetry.spans import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

TIMEOUT = 10.0
"""Longest time of a request with its retries, s."""


class TraceSender:
    """Sends spans to a collector by OTLP over HTTP.

    Args:
        address: address of the collector; `/v1/traces` is added if it names no path.
    """

    def __init__(self, address: str) -> None:
        from urllib.parse import urlsplit

        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise LowwaterError(f"{address}: no address of a collector", "write for example --to http://localhost:4318")
        path = parts.path if parts.path not in ("", "/") else "/v1/traces"
        self._address = f"{parts.scheme}://{parts.netloc}{path}"
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint=self._address, timeout=TIMEOUT)

    def send(self, spans: Sequence[Span]) -> None:
        """Sends the spans of a run.

        Raises:
            LowwaterError: the collector does not take them.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        if self._exporter.export([_readable(span) for span in spans]) is not SpanExportResult.SUCCESS:
            raise LowwaterError(
                f"{self._address}: the collector did not take the spans", "check its address and that it runs"
            )

    def close(self) -> None:
        """Ends the connection."""
        self._exporter.shutdown()


def _readable(span: Span) -> ReadableSpan:
    """Makes the span of the official library."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    return ReadableSpan(
        name=span.name,
        context=SpanContext(span.trace, span.id, False, sampled),
        parent=SpanContext(span.trace, span.parent, False, sampled) if span.parent else None,
        resource=Resource({"service.name": "lowwater", "service.version": lowwater.__version__}),
        attributes=dict(span.attributes),
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
        start_time=span.start,
        end_time=span.end,
    )
