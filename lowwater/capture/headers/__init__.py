"""The headers of a packet decoded into columns, from the link layer to the ports."""
