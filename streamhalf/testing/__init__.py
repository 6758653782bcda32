"""Checks for those who write a statistic, a tester or a row map: one line in a test.

Examples are drawn by Hypothesis, the same ones every time.
"""

try:
    import hypothesis as _  # noqa: F401
except ImportError as error:
    raise ImportError("streamhalf.testing draws its examples with Hypothesis; install streamhalf[testing]") from error

from streamhalf.testing.reductions import check_reduction
from streamhalf.testing.testers import check_tester
from streamhalf.testing.transforms import check_transform

__all__ = ["check_reduction", "check_tester", "check_transform"]
