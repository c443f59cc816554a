# For mypy, as the one beside it.
from review.serving import *
