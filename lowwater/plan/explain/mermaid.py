"""EXPLAIN as a mermaid flowchart: links at the bottom, LFTAs above them, then the operators of the queries.

Renders a Description of `describe`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lowwater.plan.explain.model import Description, LftaInfo, Named, OperatorInfo, QueryInfo
from lowwater.plan.explain.text import links_text

_LONGEST = 60
_ESCAPES = {"&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;", "`": "#96;", "\\": "#92;"}


def render_mermaid(description: Description) -> str:
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
    """Numbers the nodes of a chart, so that mermaid cannot read the name of a query as a keyword.

    Attributes:
        description: the contents of EXPLAIN.
        lftas: name of an LFTA -> its node.
        queries: name of a query -> its node.
    """

    def __init__(self, description: Description) -> None:
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

    def _query(self, query: QueryInfo) -> Iterator[str]:
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

    def _end(self, query: QueryInfo, at: int) -> str:
        """Returns the node of an operator."""
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


def _of_lfta(lfta: LftaInfo) -> list[str]:
    head = f"{lfta.kind} LFTA {lfta.name} of {lfta.protocol}"
    where = f"WHERE {lfta.predicate}" if lfta.predicate else ""
    return [head, where, _names(lfta.keys), _names(lfta.partials)]


def _of_operator(op: OperatorInfo, query: QueryInfo) -> list[str]:
    of = f" of {op.query}" if op.query != query.name else ""
    clauses = (("WHERE", op.predicate), ("HAVING", op.having), ("CLOSING_WHEN", op.closing), ("", op.lookup))
    lines = [f"{word} {text}".strip() for word, text in clauses if text]
    if op.keys:
        lines.append(f"by {_names(op.keys)}")
    if op.match:
        lines.append(op.match.condition)
    return [f"{op.kind}{of}", *lines, op.physical]


def _names(items: Sequence[Named]) -> str:
    return ", ".join(item.name for item in items)
