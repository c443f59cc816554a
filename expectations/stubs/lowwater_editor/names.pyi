# For mypy, as the one beside it.
from editor.names import *
