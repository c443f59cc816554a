"""Defines the folds of native aggregates: the merge of two values, in the form of every engine.

At the bottom of `lowwater.catalog.native`.
"""

from __future__ import annotations

from operator import add, and_, or_, xor
from typing import Any

import numpy as np

from lowwater.catalog.functions import Fold


def _least(a: Any, b: Any) -> Any:
    # NaN is greater than all numbers, but every comparison with NaN is false.
    return b if a != a or b < a else a


def _greatest(a: Any, b: Any) -> Any:
    return b if b != b or b > a else a


ADD = Fold("+", add, "sum", neutral=0, sums=True)
LEAST = Fold("<", _least, "min", neutral=None, sums=False)
GREATEST = Fold(">", _greatest, "max", neutral=None, sums=False)
AND = Fold("&", and_, np.bitwise_and, neutral=-1, sums=False)
OR = Fold("|", or_, np.bitwise_or, neutral=0, sums=False)
XOR = Fold("^", xor, np.bitwise_xor, neutral=0, sums=False)
