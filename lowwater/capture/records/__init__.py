"""The records of a capture in file order: judged, counted, and listed with a reason where they are malformed."""
