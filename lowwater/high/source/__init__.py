"""What Spark reads: stored streams laid out as one small file a boundary, and played in order."""
