"""What `lowwater inspect` prints of files, as tables or JSON."""
