"""Names and dates of capture files: links, patterns, rotation, and proposed settings."""
