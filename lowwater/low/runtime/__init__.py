"""The low level while it runs: tables of groups, heartbeats, what lies beside a kernel, and rows on their way out."""
