"""`lowwater run`: captures in, files of rows out, with a summary and traces."""
