"""Packet content beside the headers: frame bytes, DNS and HTTP fields, flow identifiers, and anonymised addresses."""
