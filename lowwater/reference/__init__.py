"""The reference engine: evaluates logical plans one tuple at a time in virtual time.

It is the oracle of `low` and `high`, and shares only the operators of `stream/` with them.
"""

from lowwater.reference.clock import Disorder
from lowwater.reference.engine import ReferenceResult, evaluate
from lowwater.stream.records import SourceCount

__all__ = ["Disorder", "ReferenceResult", "SourceCount", "evaluate"]
