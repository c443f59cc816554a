"""Acts of the pages: what each would do, and who does it (docs/adr/0107)."""
