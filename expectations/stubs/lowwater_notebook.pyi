# For mypy, as `lowwater_editor`.
from notebook import *
