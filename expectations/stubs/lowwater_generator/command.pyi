# For mypy, as `lowwater_editor`.
from generator.command import *
