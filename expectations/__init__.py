"""Audits of an interval: Great Expectations suites over the measures of its links, LFTAs and queries.

`lowwater.quality` takes the measures, and the results decide whether the interval is published. A process of its own
(`worker`) has Great Expectations, whose import takes seconds; `audits` and `pages` need it not.
Modules import each other relatively, because the folder `expectations/` is installed as `lowwater_expectations`.
"""

import os

# It must precede the import of Great Expectations, which happens only in modules of this package.
os.environ["GX_ANALYTICS_ENABLED"] = "false"
