"""Logs of Zeek and nfdump in their own text formats, as the ready protocols of `catalog.logs` read them.

Beside the parsers of `capture.tables`. `sections` parses records below header lines, `zeek` and `nfdump` read these
lines, `flows` gives the ends of flows the form that they have in packets. Suricata writes JSON lines.
"""
