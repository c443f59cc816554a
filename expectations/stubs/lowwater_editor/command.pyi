# For mypy, as the one beside it.
from editor.command import *
