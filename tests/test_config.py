from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamhalf import RunConfig, UsageError
from streamhalf._session import make_config

RANGES: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "tau": (1e-12, 0.5, (0, 1e-13, 0.51, float("nan"), float("inf"))),
    "degree": (2, 8, (0, -2, 10)),
    "moment_tolerance": (1e-6, 1.0, (0.0, 1.1)),
    "spectral_tolerance": (1e-6, 1.0, (-0.1, 2)),
    "seed": (0, 2**63 - 1, (-1, 2**63)),
    "n_workers": (1, 4096, (0, -3, 4097)),
    "memory_limit": (1 << 20, 1 << 50, (0, 2**51)),
    "certificate_memory": (1 << 20, 1 << 50, (0, 2**51)),
    "split_every": (2, 256, (1, 257)),
}
SIZES = ("memory_limit", "certificate_memory")


@pytest.mark.parametrize("name", RANGES)
def test_config__takes_both_limits(name: str) -> None:
    low, high, _ = RANGES[name]
    assert getattr(make_config({name: low}), name) == low
    assert getattr(make_config({name: high}), name) == high


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, row in RANGES.items() for value in row[2]])
def test_config__names_field_value_and_limits(name: str, value: Any) -> None:
    low, high, _ = RANGES[name]
    with pytest.raises(UsageError) as caught:
        make_config({name: value})
    limits = "1MiB to 1024TiB, as in 2GiB" if name in SIZES else f"{low:g} to {high:g}"
    limits += ", or auto" if name in ("seed", "memory_limit") else ""
    assert str(caught.value) == f"{name}: {value!r} is out of range; use {limits}"


@pytest.mark.parametrize("name", SIZES)
def test_config__takes_sizes_as_they_are_written(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, size in (("2GiB", 2 << 30), ("512 MB", 512 << 20), (1 << 30, 1 << 30)):
        assert getattr(RunConfig(**{name: text}), name) == size
        monkeypatch.setenv(f"STREAMHALF_{name.upper()}", str(text))
        assert getattr(make_config({}), name) == size
    with pytest.raises(UsageError, match=f"{name}: 'lots' is not a size; write 2GiB or 500MiB"):
        RunConfig(**{name: "lots"})
    for value in (True, [2], 1j, None):
        with pytest.raises(UsageError, match=f"{name}: .* is not a whole number; use one from"):
            RunConfig(**{name: value})
    assert RunConfig().memory_limit == RunConfig(memory_limit="auto").memory_limit == "auto"


def test_config__takes_numpy_numbers() -> None:
    config = make_config({"degree": np.int64(6), "tau": np.float32(0.25)})
    assert (config.degree, config.tau) == (6, 0.25)
