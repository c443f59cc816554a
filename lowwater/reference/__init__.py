"""The reference engine: OOP operators, tuple at a time, in virtual time; the executable semantics.

Beside `low` and `high`, over the logical plan: their oracle.
"""

from lowwater.reference.clock import Disorder
from lowwater.reference.engine import ReferenceResult, evaluate
from lowwater.reference.observe import Experiment, OperatorMeasures
from lowwater.stream.packet_source import SourceCount

__all__ = ["Disorder", "Experiment", "OperatorMeasures", "ReferenceResult", "SourceCount", "evaluate"]
