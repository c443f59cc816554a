# For mypy, which reads folders: `review/` is installed under this name.
from review import *
