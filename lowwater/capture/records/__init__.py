"""The records of a capture in file order: judged, counted, and those that are malformed kept with their reason."""
