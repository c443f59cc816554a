"""EXPLAIN as text, and as a mermaid flowchart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lowwater.plan.explain import model
from lowwater.plan.operators import ANY_LINK

# Text. Operators stand output first, and an input stands below its reader. Only operators with several inputs indent
# them.

WIDTH = 112
_WORD = re.compile(r"(?:'[^']*'|[^\s'])+|\s+|'")


def render_text(description: model.Description) -> str:
    """Returns the description as text."""
    parts = [_lines(_query(query)) for query in description.queries]
    parts.append(_lines(["low level", *(line for lfta in description.lftas for line in _indent(_lfta(lfta)))]))
    other = len(description.prefilters) > 1
    below = (line for prefilter in description.prefilters for line in _indent(_prefilter(prefilter, other)))
    parts.append(_lines(["prefilters", *below]))
    if description.memory is not None:
        parts.append(_lines(["memory", *_indent(memory_lines(description.memory))]))
    return "\n\n".join(parts) + "\n"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(wrapped for line in lines for wrapped in wrap(line))


def wrap(line: str) -> list[str]:
    """Splits a line into lines of at most WIDTH characters; a string of GSQL is never split.

    Example:
        >>> [len(part) for part in wrap("  | SELECT " + "a, " * 60)]
        [112, 85]
    """
    lead = re.match(r"[ |]*", line)
    indent = lead.group() if lead else ""
    lines, current = [], ""
    for word in _WORD.findall(line):
        if current.strip() and len(current) + len(word) > WIDTH and not word.isspace():
            lines.append(current.rstrip())
            current = f"{indent}    "
        current += word
    return [*lines, current.rstrip()]


def _indent(lines: Iterable[str], by: str = "  ") -> Iterator[str]:
    return (f"{by}{line}" for line in lines)


def _quoted(text: str) -> Iterator[str]:
    return (f"| {line}".rstrip() for line in text.splitlines())


def _query(query: model.QueryInfo) -> Iterator[str]:
    yield f"query {query.name}{'' if query.output else ', internal'}{f' ({query.file})' if query.file else ''}"
    yield from _indent(_quoted(query.text))
    yield from _indent(f"note: {note}" for note in query.notes)
    if query.within:
        yield f"  described as part of query {query.within}"
    if not query.operators:
        return
    if query.parameters:
        yield f"  parameters without a value: {', '.join(query.parameters)}"
    yield "  high level (each operator stands above its inputs)"
    yield from _indent(_tree(query.operators), "    ")
    if query.high:
        yield "  as GSQL"
        yield from _indent(_quoted(query.high), "    ")
    yield f"  split between the levels: {query.cut}"
    if query.output:
        yield from _spark_queries(query)
        yield from _shares(query.shares)
        yield f"  state between intervals: {'; '.join(query.state) or 'none'}"
        yield "  read range (of an interval that begins on the hour)"
        for read in query.reads:
            yield f"    {read.lfta}: {_range(read.before)}"


def _spark_queries(query: model.QueryInfo) -> Iterator[str]:
    again = f"; recomputes {', '.join(query.again)}" if query.again else ""
    if not query.parts:
        yield f"  evaluations: one{again}"
        return
    yield f"  evaluations: {len(query.parts) + 1}, one after another{again}"
    for part in query.parts:
        yield f"    {part.operator} of query {part.of}, stored and then read by the {part.reader}: {part.reason}"


def _shares(shares: Sequence[model.SharesInfo]) -> Iterator[str]:
    what = "parts of an epoch with many rows"
    if len(shares) == 1:
        yield f"  {what}: {_share(shares[0])}"
        return
    yield f"  {what}: {len(shares)} steps, with an exchange of rows between them"
    yield from (f"    {_share(share)}" for share in shares)


def _share(share: model.SharesInfo) -> str:
    if share.keys:
        return f"by {', '.join(share.keys)}: {share.reason}"
    return f"{'any rows' if share.anywhere else 'one'}: {share.reason}"


def _range(before: int | None) -> str:
    if before is None:
        return "from the first interval of the chain"
    return f"from {_duration(before)} before the interval" if before else "from the start of the interval"


def _duration(ns: int) -> str:
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)):
        if ns % size == 0:
            return f"{ns // size:,} {unit}"
    return f"{ns:,} ns"


def _tree(operators: Sequence[model.OperatorInfo]) -> Iterator[str]:
    """Yields the lines of the operators, inputs below readers; a stack replaces recursion, as chains are long."""
    stack: list[tuple[int, str, str]] = [(0, "", "")]
    shown: set[int] = set()
    above = operators[0].query
    while stack:
        at, indent, label = stack.pop()
        operator = operators[at]
        if label:
            yield f"{indent[:-2]}{label}"
        if at in shown and operator.inputs:
            yield f"{indent}{operator.kind} of query {operator.query}: shown above"
            continue
        shown.add(at)
        lines = list(_operator(operator))
        if operator.query != above and operator.kind != "stream":
            lines[0] += f", of query {operator.query}"
        yield from _indent(lines, indent)
        several = len(operator.inputs) > 1
        names = operator.aliases or tuple(str(number + 1) for number in range(len(operator.inputs)))
        for number, below in reversed(list(enumerate(operator.inputs))):
            stack.append((below, f"{indent}    " if several else indent, f"input {names[number]}" if several else ""))


def _operator(op: model.OperatorInfo) -> Iterator[str]:
    if op.kind == "stream":
        yield f"stream of query {op.reads}"
        return
    if op.kind == "lfta":
        yield f"LFTA {op.reads} on {'every link' if op.links == (ANY_LINK,) else ', '.join(op.links)}"
    else:
        yield f"{op.kind} of {', '.join(op.aliases)}" if op.aliases else op.kind
    yield from _indent(_details(op))
    yield f"  runs as {op.physical}: {op.reason}"
    if op.high:
        yield f"  why not at the low level: {op.high}"
    if op.kind != "lfta":
        yield f"  columns: {_columns(op.columns)}"
        yield f"  punctuation{_punctuation(op.punctuation)}"


def _details(op: model.OperatorInfo) -> Iterator[str]:
    if op.keys:
        yield f"group by {_names(op.keys)}"
    if op.supergroup:
        yield f"supergroup {', '.join(op.supergroup)}"
    for word, aggregates in (("aggregates", op.aggregates), ("superaggregates", op.supers)):
        if aggregates:
            yield f"{word} {', '.join(f'{item.name} = {item.expression}' for item in aggregates)}"
    if op.states:
        yield f"states {', '.join(op.states)}"
    if op.match:
        yield f"{op.match.kind} {op.match.condition}"
        for equality in op.match.equalities:
            yield f"  and {equality} (NULL = NULL)"
        if op.match.residual:
            yield f"  and {op.match.residual}"
        match = op.match
        promises = (match.left_promise,) if match.kind == "equality" else (match.left_promise, match.right_promise)
        yield f"{'promises' if len(promises) > 1 else 'promise'} {' and '.join(promises)}"
    if op.lookup:
        yield f"matches where {op.lookup}"
    if op.window:
        yield _window(op.window)
    if op.sets:
        sets = " ".join(f"({', '.join(names)})" for names in op.sets)
        yield f"one row for each set: {sets}"
    clauses = (
        ("where", op.predicate),
        ("having", op.having),
        ("cleaning when", op.cleaning_when),
        ("cleaning keeps groups with", op.cleaning_by),
        ("group ends when", op.closing),
    )
    yield from (f"{word} {text}" for word, text in clauses if text)
    if op.first:
        yield f"keeps the first rows: {op.first}"
    if op.fill:
        yield f"adds what is missing of each epoch: {op.fill}"
    if op.over:
        yield f"adds {', '.join(op.over)}"
    if op.items:
        yield f"select {_names(op.items)}"


def _window(window: model.Sliding) -> str:
    unit = " rows" if window.rows else ""
    parts = f" per {', '.join(window.partition)}" if window.partition else ""
    parts += f" where {window.counted}" if window.counted else ""
    return f"window of {window.range}{unit} of {window.attribute}{parts}, a new one every {window.slide}{unit}"


def _names(items: Sequence[model.Named]) -> str:
    # In GSQL, `A.time` without AS gives a column called time.
    return ", ".join(
        e.expression if e.expression.rpartition(".")[2] == e.name else f"{e.expression} AS {e.name}" for e in items
    )


def _columns(columns: Sequence[model.ColumnInfo]) -> str:
    return ", ".join(map(_column, columns))


def _column(column: model.ColumnInfo) -> str:
    text = f"{column.name} {column.type}"
    if column.progress is None:
        return text
    extreme = "least" if column.progress.direction == "increasing" else "greatest"
    ways = " and ".join(column.progress.steps)
    return f"{text} {column.progress.direction} ({ways if len(column.progress.steps) == 1 else f'{extreme} of {ways}'})"


def _punctuation(promise: model.PunctuationInfo) -> str:
    if not promise.columns:
        return f": {promise.reason}"
    kind = (" together" if promise.joint else " separately") if len(promise.columns) > 1 else ""
    groups = f", for each {', '.join(promise.groupwise)}" if promise.groupwise else ""
    return f" on {', '.join(promise.columns)}{kind}{groups}: {promise.reason}"


def links_text(links: Sequence[str], other: bool = False) -> str:
    """Returns links as text; `*` is every link, or every other one where others are named beside it."""
    if tuple(links) == (ANY_LINK,):
        return "every other link" if other else "every link"
    return f"link{'s' if len(links) > 1 else ''} {', '.join(links)}"


def _lfta(lfta: model.LftaInfo) -> Iterator[str]:
    records = "" if lfta.records == "pcap" else f", {lfta.records} records"
    yield f"LFTA {lfta.name}: {lfta.kind} of {lfta.protocol} on {links_text(lfta.links)}{records}"
    yield from _indent(_quoted(lfta.gsql))
    yield f"  records of the protocol: {lfta.member or 'all'}"
    yield f"  columns: {_columns(lfta.columns)}"
    if lfta.sample:
        yield f"  sample: {lfta.sample}"
    if lfta.arrival:
        yield f"  reads by arrival: {lfta.arrival}"
    if lfta.shares:
        yield f"  rows of an epoch with many are divided by {', '.join(lfta.shares)}"
    if lfta.slots:
        yield f"  group table: {lfta.slots:,} slots, direct-mapped"
        yield f"  flush: {lfta.flush}"
    yield f"  punctuation{_punctuation(lfta.punctuation)}"
    often = f"one per {_duration(lfta.granularity)} of {lfta.clock}" if lfta.granularity > 1 else "every one"
    yield f"  useful punctuation: {often}, for {lfta.asked_by}"
    several = any(ANY_LINK in signature.links for signature in lfta.signatures) and len(lfta.signatures) > 1
    for signature in lfta.signatures:
        yield f"  {_signature(signature, several)}"


def _signature(signature: model.SignatureInfo, other: bool) -> str:
    word = "bits" if len(signature.bits) > 1 else "bit"
    bits = f"{word} {', '.join(str(bit) for bit in signature.bits)} ({signature.mask})" if signature.bits else "no bit"
    rest = f"then tests {signature.rest}" if signature.rest else "no further test"
    return f"prefilter on {links_text(signature.links, other)}: needs {bits}, {rest}"


def _prefilter(prefilter: model.PrefilterInfo, other: bool) -> Iterator[str]:
    yield f"{links_text(prefilter.links, other)}, read by {', '.join(prefilter.lftas)}"
    if not prefilter.bits:
        yield "  no bit: every record reaches the LFTAs"
    for at, bit in enumerate(prefilter.bits):
        share = f"{bit.lftas} LFTAs" if bit.lftas > 1 else "1 LFTA"
        yield f"  bit {at}: {bit.condition} ({share})"


# Mermaid

_LONGEST = 60
_ESCAPES = {"&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "`": "#96;", "\\": "#92;"}


def render_mermaid(description: model.Description) -> str:
    """Returns the description as a flowchart that grows from the links upward."""
    return "\n".join(["flowchart BT", *(f"  {line}" for line in _Chart(description).lines())]) + "\n"


def label(*lines: str) -> str:
    """Returns a quoted label of several lines, with mermaid's special characters escaped.

    Example:
        >>> label('len > 5', "str_match_start[payload, 'GET']")
        '"len #gt; 5<br/>str_match_start[payload, \\'GET\\']"'
    """
    shown = (line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..." for line in lines if line)
    return '"' + "<br/>".join("".join(_ESCAPES.get(char, char) for char in line) for line in shown) + '"'


class _Chart:
    """Numbers the nodes of a chart, so that mermaid cannot read the name of a query as a keyword."""

    def __init__(self, description: model.Description) -> None:
        self.description = description
        self.lftas = {lfta.name: f"lfta{at}" for at, lfta in enumerate(description.lftas)}
        self.queries = {query.name: f"query{at}" for at, query in enumerate(description.queries)}

    def lines(self) -> Iterator[str]:
        links = list(dict.fromkeys(link for lfta in self.description.lftas for link in lfta.links))
        ids = {link: f"link{at}" for at, link in enumerate(links)}
        for link, name in ids.items():
            yield f"{name}[/{label('every link' if link == '*' else link)}/]"
        sets = list(dict.fromkeys(lfta.links for lfta in self.description.lftas))
        for at, chosen in enumerate(sets):
            inside = [lfta for lfta in self.description.lftas if lfta.links == chosen]
            nodes = (f"{self.lftas[lfta.name]}[{label(*_of_lfta(lfta))}]" for lfta in inside)
            yield from _subgraph(f"low{at}", f"low level of {links_text(chosen)}", nodes)
            yield from (f"{ids[link]} --> {self.lftas[lfta.name]}" for lfta in inside for link in chosen)
        for query in self.description.queries:
            if query.operators:
                yield from self._query(query)

    def _query(self, query: model.QueryInfo) -> Iterator[str]:
        node = self.queries[query.name]
        out = f"{node}out"
        word = "table" if query.output else "stream"
        operators = [(at, op) for at, op in enumerate(query.operators) if op.kind not in ("lfta", "stream")]
        nodes = [f"{node}op{at}[{label(*_of_operator(op, query))}]" for at, op in operators]
        nodes.append(f"{out}([{label(f'{word} {query.name}')}])")
        yield from _subgraph(node, f"query {query.name}", nodes)
        yield f"{self._end(query, 0)} --> {out}"
        for at, op in operators:
            for number, below in enumerate(op.inputs):
                name = op.aliases[number] if number < len(op.aliases) else ""
                arrow = f"-- {label(name)} -->" if name else "-->"
                yield f"{self._end(query, below)} {arrow} {node}op{at}"

    def _end(self, query: model.QueryInfo, at: int) -> str:
        op = query.operators[at]
        if op.kind == "lfta":
            return self.lftas[op.reads]
        if op.kind == "stream":
            return f"{self.queries[op.reads]}out"
        return f"{self.queries[query.name]}op{at}"


def _subgraph(name: str, title: str, nodes: Sequence[str] | Iterator[str]) -> Iterator[str]:
    yield f"subgraph {name}[{label(title)}]"
    yield from (f"  {node}" for node in nodes)
    yield "end"


def _of_lfta(lfta: model.LftaInfo) -> list[str]:
    head = f"{lfta.kind} LFTA {lfta.name} of {lfta.protocol}"
    where = f"WHERE {lfta.predicate}" if lfta.predicate else ""
    return [head, where, _mermaid_names(lfta.keys), _mermaid_names(lfta.partials)]


def _of_operator(op: model.OperatorInfo, query: model.QueryInfo) -> list[str]:
    of = f" of {op.query}" if op.query != query.name else ""
    clauses = [("WHERE", op.predicate), ("HAVING", op.having), ("CLOSING_WHEN", op.closing)]
    clauses += [("", op.lookup), ("", op.first), ("", op.fill), *(("", each) for each in op.over)]
    lines = [f"{word} {text}".strip() for word, text in clauses if text]
    if op.keys:
        lines.append(f"by {_mermaid_names(op.keys)}")
    if op.match:
        lines.append(op.match.condition)
    return [f"{op.kind}{of}", *lines, op.physical]


def _mermaid_names(items: Sequence[model.Named]) -> str:
    return ", ".join(item.name for item in items)


def memory_lines(memory: model.MemoryInfo) -> Iterator[str]:
    """Yields what bounds the memory of a run, in the words of EXPLAIN and `doctor`."""
    whose = "" if memory.setting else "; [replay] memory is not set"
    usual = "" if memory.setting else " (as usual)"
    kept = "an operator keeps up to {:,} rows in memory, further ones in files"
    threads = f"{memory.threads} threads, in each of which" if memory.threads > 1 else "1 thread, in which"
    yield f"process: {memory.process:,} bytes ({memory.source}{whose}) for {threads} {kept.format(memory.rows)}"
    yield f"Spark task: {memory.task:,} bytes{usual}, in which {kept.format(memory.task_rows)}"
