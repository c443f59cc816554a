"""Types of the arrays that kernels read and write.

Below all other modules of `low`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Int64Array = npt.NDArray[np.int64]
