"""What editors ask of a query text: its mistakes, completions, meanings, definitions, its canonical form.

`lowwater lsp` and the page on which queries are written use it. Modules import each other relatively, because the
folder `editor/` is installed as `lowwater_editor`.
"""
