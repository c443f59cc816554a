"""What a command says that Ctrl-C has ended: what stands, and how to go on."""

from __future__ import annotations

STANDS = {
    "backfill": "what was published stays; {again} runs the rest",
    "export": "no file was written; {again} begins again",
    "generate": "the captures are not all there, or cut; {again} makes them again",
    "ingest": "captures that were ingested stay, others are not there in part; {again} takes the rest",
    "init": "no settings were written; {again} begins again",
    "maintain": "the lake is whole, and what was removed is nowhere in use; {again} does the rest",
    "replay": "intervals that were published stay; {again} runs the rest",
    "run": "no file of a result is there in part; {again} begins again",
    "serve": "the lake is as it was",
    "try": "what the trial has run stays, and the lake is as it was; {again} runs the rest",
}
"""What stands once Ctrl-C has ended a command, and how to go on. Other commands only read."""


def stopped_line(name: str, again: str) -> str:
    """Returns what a command says that Ctrl-C has ended.

    Args:
        name: its name.
        again: it with its arguments.

    Example:
        >>> stopped_line("rows", "lowwater rows flows --lake x")
        'stopped'
    """
    return f"stopped: {STANDS[name].format(again=f'`{again}`')}" if name in STANDS else "stopped"
