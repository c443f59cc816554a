"""Pages over published rows: results, the packets behind a row, differences of two versions, and their drawings."""
