"""The output of the high stage: files with rows and punctuation of a query."""
