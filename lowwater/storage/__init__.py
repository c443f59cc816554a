"""Files of a lake, wherever the lake is. `paths` is the one door to them."""
