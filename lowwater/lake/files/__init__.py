"""What the names and dates of capture files say: links, patterns, rotation, and proposed settings."""
