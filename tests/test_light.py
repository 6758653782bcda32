"""Importing streamhalf, or asking for help, loads nothing that only a run needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import streamhalf
from streamhalf import report

HEAVY = {"dask", "distributed", "jinja2", "pandas", "scipy", "sklearn", "xarray", "zarr"}
COMMAND = """
import contextlib, io
from streamhalf.cli import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main({arguments})
"""


def loaded_by(program: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a program."""
    code = f"{program}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def test_import__is_light() -> None:
    assert not loaded_by("import streamhalf") & (HEAVY | {"numpy", "msgspec", "rich", "yaml"})


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["synth", "--help"]])
def test_help__needs_no_engine(arguments: list[str]) -> None:
    assert not loaded_by(COMMAND.format(arguments=arguments)) & (HEAVY | {"yaml"})


def test_fit__of_a_store_needs_no_other_arrays(tmp_path: Path) -> None:
    store = str(tmp_path / "data.zarr")
    spec = {"marginal": "gaussian", "noise": "random", "rate": 0.05, "seed": 1}
    streamhalf.synth(store, rows=20_000, dim=3, **spec)
    loaded = loaded_by(COMMAND.format(arguments=["fit", store, "--quiet", "--seed", "1"]))
    assert not loaded & {"scipy.optimize", "scipy.stats", "sklearn", "streamhalf.synthetic.spec"}
    assert {"dask.threaded", "streamhalf.algorithms.driver", "streamhalf.report.words"} <= loaded
    assert not loaded & {"dask.array", "distributed", "pandas", "xarray", "rich._emoji_codes"}


@pytest.mark.parametrize("package", [streamhalf, report])
def test_lazy_names__are_all_there(package: object) -> None:
    exported = set(vars(package)["__all__"])
    assert exported <= set(dir(package))
    assert all(getattr(package, name) is not None for name in exported)


def test_lazy_names__scikit_learn_is_not_needed_for_all_of_them() -> None:
    assert "HalfspaceTesterLearner" not in streamhalf.__all__
    assert not loaded_by("from streamhalf import *") & {"sklearn"}
    with pytest.raises(AttributeError, match="No streamhalf attribute fitt"):
        _ = streamhalf.fitt  # type: ignore[attr-defined]
