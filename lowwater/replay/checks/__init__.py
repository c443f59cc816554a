"""What is refused before a run: constructs that no engine runs, costs beyond reason, columns that no link keeps."""
