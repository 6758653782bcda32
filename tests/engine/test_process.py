from __future__ import annotations

import sys

import numpy as np
import pytest

from streamhalf.engine import open_engine
from streamhalf.engine.process import eager_switching, settle_worker


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc only")
def test_settle_worker__malloc_agrees_and_large_buffers_come_again() -> None:
    agreed = settle_worker()
    if not agreed:
        pytest.skip("another C library than glibc")
    first = np.empty(24 << 20, dtype=np.uint8)
    where = first.ctypes.data
    del first
    # below the threshold of 32 MB a freed buffer stays with the process and is handed out again
    assert any(_address() == where for _ in range(3))


def _address() -> int:
    return np.empty(24 << 20, dtype=np.uint8).ctypes.data


def test_eager_switching__ends_with_the_engine() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        with open_engine("threads", 2):
            assert sys.getswitchinterval() < 0.001
        assert sys.getswitchinterval() == pytest.approx(0.004)
        sys.setswitchinterval(1e-5)  # whoever wants it faster still keeps that
        with eager_switching():
            assert sys.getswitchinterval() == pytest.approx(1e-5)
    finally:
        sys.setswitchinterval(before)
