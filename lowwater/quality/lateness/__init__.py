"""How late the records of a link are, and which skew fits them."""
