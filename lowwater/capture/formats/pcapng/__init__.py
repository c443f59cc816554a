"""Reading pcapng (draft-ietf-opsawg-pcapng): its blocks, the packets in them, the interfaces they belong to.

Below the reader, beside the classic format: `scanner` is what the reader asks.
"""
