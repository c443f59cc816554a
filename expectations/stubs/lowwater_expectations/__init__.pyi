# For mypy, which reads folders: `expectations/` is installed under this name.
