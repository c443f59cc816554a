# For mypy, as the one beside it.
from review.results.answers import *
