"""The files that captures come in: their headers, compression and records, and how one is divided."""
