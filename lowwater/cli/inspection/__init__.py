"""What `lowwater inspect` shows: captures, files of other records, and the texts of their values."""
