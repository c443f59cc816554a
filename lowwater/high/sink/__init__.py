"""What Spark writes: rows and punctuation of a query's stream as files."""
