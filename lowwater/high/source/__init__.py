"""The input of the high stage: stored streams, boundaries of slices, and the stream of punctuation files."""
