"""The packets of a link over an interval, measured straight from `packets/`."""
