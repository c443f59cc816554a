# For mypy, as the one beside it.
from expectations.judging import *
