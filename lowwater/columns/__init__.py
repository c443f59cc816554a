"""Rows as Arrow columns: values of expressions, keys, published form, and the files that hold them."""
