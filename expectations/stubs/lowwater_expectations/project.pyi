# For mypy, as the one beside it.
from expectations.project import *
