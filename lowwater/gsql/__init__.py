"""Query text to syntax tree, and back; what names mean is decided in `plan.bind`."""
