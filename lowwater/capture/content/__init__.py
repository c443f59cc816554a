"""What is kept of a packet beside its headers: bytes, texts of applications, the names of flows; and what is hidden."""
