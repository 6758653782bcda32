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
from rich.console import Console
from sklearn.base import clone

import streamhalf
from streamhalf import FitResult, HalfspaceTesterLearner, RunConfig, UsageError, config
from streamhalf.cli import main
from streamhalf.config import draw_seed, load_config
from streamhalf.report.tables import fact_table
from streamhalf.report.terminal import show_certificate, show_fit
from streamhalf.results import from_json, is_as_written, replace, to_json
from streamhalf.results.document import read_result, write_json
from streamhalf.results.results import content_digest
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


def test_draw__never_twice_the_same_and_exact_as_a_double() -> None:
    drawn = {draw_seed() for _ in range(1000)}  # two agree with probability below 1e-10
    assert len(drawn) == 1000
    assert all(float(seed) == seed and 0 <= seed < 2**53 for seed in drawn)
    assert max(drawn) > 2**45  # not so with probability below 1e-2000


def test_config__has_a_seed_of_its_own_unless_given(system: None) -> None:
    first, second = RunConfig(), RunConfig(eps=0.1)
    assert first.seed != second.seed
    assert RunConfig(seed=first.seed) == first


@pytest.mark.parametrize("seed", [np.int32(5), np.uint64(2**63 - 1), np.int64(0), 2**63 - 1])
def test_config__takes_whole_numbers_of_any_kind(seed: Any) -> None:
    found = RunConfig(seed=seed).seed
    assert found == seed
    assert type(found) is int


@pytest.mark.parametrize(
    ("seed", "fault"),
    [
        (-1, "is out of range; use"),
        (2**63, "is out of range; use"),
        (np.uint64(2**63), "is out of range; use"),
        (1.5, "is not a whole number; use one from"),
        (True, "is not a whole number; use one from"),
        (None, "is not a whole number; use one from"),
        ("any", "is not a whole number; use one from"),
    ],
)
def test_config__names_the_limits_of_a_seed(seed: Any, fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        streamhalf.fit(DATA, seed=seed)
    assert str(caught.value).startswith("seed: ")
    assert str(caught.value).endswith(f"{fault} 0 to 9.22337e+18, or auto")


def test_file__may_leave_the_seed_to_the_system(tmp_path: Path, system: None) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("seed: auto\n", encoding="utf-8")
    given = load_config(path).parameters
    assert given == {"seed": "auto"}
    assert RunConfig(**given).seed != RunConfig(**given).seed


def repeated(result: FitResult) -> str:
    """What a run that is given the seed of the result says; it knows that the seed was given."""
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


def test_fit__takes_a_seed_of_numpy(tmp_path: Path) -> None:
    given = streamhalf.fit(DATA, seed=np.int64(7), checkpoint=tmp_path / "saved", **QUICK)
    assert comparable(given) == comparable(streamhalf.fit(DATA, seed=7, **QUICK))


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


def test_json__records_the_seed(tmp_path: Path, system: None) -> None:
    path = tmp_path / "result.json"
    result = streamhalf.fit((DATA[0][:300], DATA[1][:300]))
    write_json(path, result)
    document = json.loads(path.read_text())
    assert (document["seed"], document["seed_drawn"]) == (result.seed, True)
    assert read_result(path) == result


def test_json__that_does_not_know_of_drawn_seeds_stays_as_written(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    document = to_json(streamhalf.fit((DATA[0][:300], DATA[1][:300]), seed=3))
    del document["seed_drawn"]
    document["digest"] = content_digest(document)
    path.write_text(json.dumps(document))
    found = read_result(path)
    assert found.seed_drawn is False
    assert is_as_written(found)
    path.write_text(json.dumps(document | {"seed": 4}))
    assert not is_as_written(read_result(path))
    assert not is_as_written(from_json(FitResult, document | {"seed": 4}))


def test_words__name_the_seed() -> None:
    result = streamhalf.fit(DATA, seed=3, **QUICK)
    shown = {True: "12345, drawn by the system", False: "12345, given"}
    for drawn, words in shown.items():
        one = replace(result, seed=12345, seed_drawn=drawn)
        assert ("seed", words) in fact_table(one).rows
        console = Console(width=200)
        with console.capture() as caught:
            show_fit(console, one)
        assert f"seed {words}" in caught.get()


def test_words__of_a_certificate_name_the_seed_that_chose_its_rows() -> None:
    X, y = draw(300_000)
    result = streamhalf.certify(
        (X, y), weights=np.ones(2), certificate_rows=1 << 16, certificate_degree=2, seed=8
    )
    assert ("seed", "8, given") in fact_table(result).rows
    console = Console(width=200)
    with console.capture() as caught:
        show_certificate(console, result)
    assert "seed 8, given" in caught.get()


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


def test_resume__a_seed_that_was_given_is_not_called_drawn(tmp_path: Path) -> None:
    where = {"checkpoint": tmp_path / "saved"}
    first = streamhalf.fit(DATA, seed=5, **where, **QUICK)
    again = streamhalf.fit(DATA, resume=True, **where, **QUICK)
    assert (again.seed, again.seed_drawn) == (5, False)
    assert comparable(again) == comparable(first)


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
