# For mypy, as the one beside it.
from review.app import *
