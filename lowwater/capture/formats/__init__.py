"""File formats of captures: headers, compression, records, and the division of a file into chunks."""
