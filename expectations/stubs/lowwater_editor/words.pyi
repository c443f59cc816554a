# For mypy, as the one beside it.
from editor.words import *
