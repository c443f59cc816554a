# For mypy, as the one beside it.
from editor.server import *
