"""The seed of a run: drawn by the system, recorded, kept when a run goes on, given to repeat one.

Nothing is said here of verdicts, for a seed that the system drew may be any.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import streamhalf
from streamhalf import FitResult, HalfspaceTesterLearner, RunConfig, UsageError, config
from streamhalf.cli import main
from streamhalf.config import draw_seed
from streamhalf.results import is_as_written, replace
from tests.algorithms.runs import draw
from tests.comparing import comparable

DATA = draw()
QUICK: dict[str, Any] = {"eps": 0.25, "certificate_degree": 0, "scheduler": "serial"}
FLAGS = ("--eps", "0.25", "--certificate-degree", "0", "--scheduler", "serial", "--quiet")

_KILLED = """
import os, signal, sys
from streamhalf.cli import main
from streamhalf.engine.checkpoint import Checkpoint
save = Checkpoint.save
def save_and_die(*arguments):
    save(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
Checkpoint.save = save_and_die
main(sys.argv[1:])
"""


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds come from the system, as they do outside of tests."""
    monkeypatch.setattr(config, "draw_seed", draw_seed)
    paths = os.environ["PYTHONPATH"].split(os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths[1:]))


def test_config__has_a_seed_of_its_own_unless_given(system: None) -> None:
    first, second = RunConfig(), RunConfig(eps=0.1)
    assert first.seed != second.seed
    assert RunConfig(seed=first.seed) == first


def repeated(result: FitResult) -> str:
    """Result of a run that is given the seed of another result."""
    again = streamhalf.fit(DATA, seed=result.seed, **QUICK)
    assert again.seed_drawn is False
    return comparable(replace(again, seed_drawn=result.seed_drawn))


def test_fit__without_a_seed_draws_one_and_can_be_repeated(system: None) -> None:
    first, second = (streamhalf.fit(DATA, **QUICK) for _ in range(2))
    assert first.seed != second.seed
    assert first.halfspace != second.halfspace
    for result in (first, second):
        assert result.seed_drawn
        assert is_as_written(result)
        assert repeated(result) == comparable(result)


def test_results__say_whether_the_seed_was_drawn() -> None:
    some = (DATA[0][:3000], DATA[1][:3000])
    weights = np.ones(2)
    for given, drawn in (({}, True), ({"seed": "auto"}, True), ({"seed": 3}, False)):
        tested = streamhalf.test(some, **given)
        certified = streamhalf.certify(some, weights=weights, certificate_degree=2, **given)
        found = (tested.seed_drawn, certified.seed_drawn)
        assert found == (drawn, drawn)
        assert tested.seed == certified.certificate.seed == (0 if drawn else 3)
        assert is_as_written(certified)


@pytest.mark.filterwarnings("ignore::streamhalf.UnverifiedWarning")
def test_estimator__draws_a_seed_for_every_fit(system: None) -> None:
    learner = HalfspaceTesterLearner()
    assert clone(learner).seed == learner.seed == "auto"
    X, y = DATA[0][:300], DATA[1][:300]
    seeds = {learner.fit(X, y).result_.seed for _ in range(3)}
    assert len(seeds) == 3
    assert clone(learner.set_params(seed=np.int64(4))).fit(X, y).result_.seed == 4


def test_resume__keeps_the_seed_it_began_with(tmp_path: Path, system: None) -> None:
    where = {"checkpoint": tmp_path / "saved"}
    first = streamhalf.fit(DATA, **where, **QUICK)
    again = streamhalf.fit(DATA, resume=True, **where, **QUICK)
    assert comparable(again) == comparable(first)
    # given as well, it is still the one that the system drew
    given = streamhalf.fit(DATA, resume=True, seed=first.seed, **where, **QUICK)
    assert comparable(given) == comparable(first)
    with pytest.raises(UsageError) as caught:
        streamhalf.fit(DATA, resume=True, seed=3, **where, **QUICK)
    said = f"is of another run: seed (was {first.seed}, is 3); use what the run began with, or"
    assert said in str(caught.value)


@pytest.mark.parametrize("flags", [(), ("--seed", "12345")], ids=["drawn", "given"])
def test_resume__of_a_killed_run_needs_no_seed(
    flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], system: None
) -> None:
    store, result = tmp_path / "rows.zarr", tmp_path / "result.json"
    streamhalf.synth(store, rows=90_000, dim=2, marginal="gaussian", noise="none")
    command = ["fit", str(store), *FLAGS, "--checkpoint", str(tmp_path / "saved")]
    program = [sys.executable, "-c", _KILLED, *command, *flags]
    assert subprocess.run(program, check=False, timeout=120).returncode == -signal.SIGKILL
    assert main([*command, "--resume", "--seed", "3"]) == 2
    assert "is of another run: seed (was " in capsys.readouterr().err
    main([*command, "--resume", "--json", str(result)])
    document = json.loads(result.read_text())
    assert document["seed_drawn"] is (flags == ())
    assert not flags or document["seed"] == 12345
    again = streamhalf.fit(store, seed=document["seed"], **QUICK)
    assert comparable(replace(again, seed_drawn=flags == ())) == comparable(result)
