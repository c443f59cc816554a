"""What editors ask of a query text: its mistakes, completions, meanings, definitions, its canonical form."""
