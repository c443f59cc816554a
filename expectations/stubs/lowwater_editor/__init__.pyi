# For mypy, which reads folders: `editor/` is installed under this name.
