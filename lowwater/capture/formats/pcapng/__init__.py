"""Reading pcapng (draft-ietf-opsawg-pcapng): blocks, packets and interfaces.

Below the reader, beside the classic format. The reader calls `scanner`.
"""
