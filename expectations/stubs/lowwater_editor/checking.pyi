# For mypy, as the one beside it.
from editor.checking import *
