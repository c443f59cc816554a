"""Reading ERF (Endace, "ERF Types Reference Guide"): records of several kinds and ports, without a file header.

Below the reader, beside the other formats. `formats.header` calls `records`, the reader calls `scanner`.
"""
