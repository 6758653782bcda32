from __future__ import annotations

import sys

import numpy as np
import pytest

from streamhalf.engine.process import keep_buffers


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc only")
def test_keep_buffers__malloc_agrees_and_large_buffers_come_again() -> None:
    agreed = keep_buffers()
    if not agreed:
        pytest.skip("another C library than glibc")
    first = np.empty(24 << 20, dtype=np.uint8)
    where = first.ctypes.data
    del first
    # below the threshold of 32 MB a freed buffer stays with the process and is handed out again
    assert any(_address() == where for _ in range(3))


def _address() -> int:
    return np.empty(24 << 20, dtype=np.uint8).ctypes.data
