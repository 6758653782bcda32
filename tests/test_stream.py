"""`StreamLearner`: rows that keep coming, each seen once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import streamhalf
from scripts.programs.streams import ORDERS, false_statements
from streamhalf import DataError, FitResult, StreamhalfError, StreamLearner, UsageError, Verdict
from streamhalf.algorithms.stream import BLOCK_ROWS
from streamhalf.estimator import HalfspaceTesterLearner
from streamhalf.report.first_screen import face_of, promise_line
from streamhalf.results import NoticeCode

Rows = tuple[NDArray[np.float64], NDArray[np.int8]]
DIM, N_ROWS = 3, 30 * BLOCK_ROWS


@cache
def draw(n_rows: int = N_ROWS, rate: float = 0.05, shift: float = 0.0) -> Rows:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n_rows, DIM)) + shift
    y = np.where(X[:, 0] + X[:, 1] >= 0, 1, -1).astype(np.int8)
    y[rng.random(n_rows) < rate] *= -1
    return X, y


def batches(rows: Rows, *sizes: int) -> Iterator[Rows]:
    start, number = 0, 0
    while start < len(rows[1]):
        window = slice(start, start + sizes[number % len(sizes)])
        yield rows[0][window], rows[1][window]
        start, number = window.stop, number + 1


def learned(rows: Rows, *sizes: int, **parameters: Any) -> StreamLearner:
    learner = StreamLearner(**{"seed": 3, **parameters})
    for batch in batches(rows, *(sizes or (50_000,))):
        learner.add(*batch)
    return learner


@pytest.fixture(scope="module")
def result() -> FitResult:
    return learned(draw()).result(certificate=False)


def test_stream__is_accepted_with_a_bound(result: FitResult) -> None:
    assert result.verdict is Verdict.ACCEPTED
    assert result.error is not None
    assert result.halfspace is not None
    assert result.data.rows == N_ROWS
    true = result.halfspace.plane.errors(*draw()) / N_ROWS
    assert true < 1.05 * 0.05
    assert abs(result.error.empirical - true) < 0.003
    assert true < result.error.upper < true + 0.01


@pytest.mark.parametrize("sizes", [(777, 30_001, 1), (N_ROWS,)])
def test_stream__sizes_of_batches_make_no_difference(sizes: tuple[int, ...], result: FitResult) -> None:
    assert learned(draw(), *sizes).result(certificate=False) == result


def test_stream__is_saved_and_resumed_anywhere(tmp_path: Path, result: FitResult) -> None:
    learner = StreamLearner(seed=3)
    for number, batch in enumerate(batches(draw(), 20_000)):
        learner.add(*batch)
        if number % 3 == 0:
            learner.save(tmp_path)
            learner = StreamLearner.load(tmp_path)
    assert learner.result(certificate=False) == result


def test_stream__a_damaged_copy_is_refused(tmp_path: Path) -> None:
    learned(draw(60_000)).save(tmp_path / "whole")
    for file in (tmp_path / "whole").iterdir():
        copy = tmp_path / f"copy of {file.name}"
        copy.mkdir()
        for other in (tmp_path / "whole").iterdir():
            content = bytearray(other.read_bytes())
            if other == file:
                content[len(content) // 2] ^= 1
            (copy / other.name).write_bytes(content)
        with pytest.raises(DataError, match="damaged"):
            StreamLearner.load(copy)
    for place in (tmp_path, tmp_path / "whole" / "stream.json"):
        with pytest.raises(UsageError, match="holds no saved stream"):
            StreamLearner.load(place)


def test_stream__certificate_bounds_all_halfspaces() -> None:
    found = learned(draw(14 * BLOCK_ROWS), certificate_degree=4).result()
    assert found.certificate is not None
    assert 0 < found.certificate.opt.lower < found.certificate.opt.lower_empirical <= 0.056
    assert found.quality is not None
    assert found.error is not None
    assert found.quality.error == found.error.empirical
    assert found.stream is not None
    assert found.stream.certificate is not None
    assert found.data.rows == found.stream.errors[1] == 14 * BLOCK_ROWS
    start, stop = found.stream.certificate
    assert found.stream.errors[0] <= start < stop <= found.stream.errors[1]
    measured = face_of(found).measured
    assert f"Best possible: on rows {start + 1:,} to {stop:,} alone." in measured
    assert "if rows come independently" in measured
    with pytest.raises(DataError, match="rows were not kept"):
        streamhalf.verify(found, draw(14 * BLOCK_ROWS))


@pytest.mark.parametrize("order", ORDERS)
def test_stream__in_any_order__says_nothing_false(order: str) -> None:
    """Error, L and guessing are those of the rows that the result names."""
    assert false_statements(order, 0, n_looks=20) == set()


def test_stream__before_a_path_is_learned__says_what_it_takes() -> None:
    learner = StreamLearner(seed=1)
    with pytest.raises(UsageError, match="no rows yet"):
        learner.result()
    learner.add(*draw(1000))
    found = learner.result()
    assert (found.verdict, found.halfspace, found.error) == (Verdict.INCONCLUSIVE, None, None)
    assert found.rows_needed is not None
    assert found.rows_needed > 10_000 > found.data.rows == 1000
    assert "you have 1,000." in promise_line(found).words
    assert (learner.n_rows, learner.n_waiting) == (1000, 1000)
    assert "MORE" in str(found.promise and found.promise.code).upper()


def test_stream__more_rows_are_needed_than_there_are() -> None:
    """Until its tests are done, a result names the rows at which they are, and so do its words."""
    learner, rows, needed = StreamLearner(seed=1, certificate_degree=0), draw(12 * BLOCK_ROWS), []
    for X, y in batches(rows, BLOCK_ROWS + 9):
        found = learner.add(X, y).result()
        if found.stream is None or found.rows_needed is None:
            continue
        assert found.promise is not None
        assert found.promise.rows_needed == found.rows_needed > learner.n_rows
        assert f"{found.data.rows:,} were looked at" in promise_line(found).words
        needed.append(found.rows_needed)
    assert len(set(needed)) == 1
    assert found.verdict is Verdict.ACCEPTED


def test_stream__a_drawn_seed_stays_secret() -> None:
    """Who knew it could flip exactly the rows that are learned from next."""
    secret = 6543210987654321
    learner = StreamLearner(certificate_degree=4)
    learner._config = dataclasses.replace(learner._config, seed=secret, seed_drawn=True)
    learner.add(*draw(12 * BLOCK_ROWS))
    state = learner._state
    assert state is not None
    assert state.current is not None
    text = str(streamhalf.results.to_json(learner.result()))
    assert [one for one in (secret, state.current.seed) if str(one) in text] == []


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ((np.zeros((5, DIM + 1)), np.ones(5)), "4 features; the batches before had 3"),
        ((np.full((5, DIM), np.nan), np.ones(5)), "NaN"),
        ((np.zeros((5, DIM)), np.ones(4)), "shapes"),
        ((np.zeros((5, DIM)), np.full(5, 7)), "other values than -1 and 1"),
        ((np.zeros((5, DIM)), None), "y: not given"),
        ((np.zeros(5), np.ones(5)), "shapes"),
    ],
)
def test_stream__a_bad_batch_is_refused__and_changes_nothing(batch: Any, said: str) -> None:
    learner = learned(draw(40_000))
    before = learner.n_rows, learner.result(certificate=False)
    with pytest.raises(StreamhalfError, match=said):
        learner.add(*batch)
    assert (learner.n_rows, learner.n_waiting) == (40_000, 40_000 - 2 * BLOCK_ROWS)
    assert before[0] == learner.n_rows
    assert before[1].data == learner.result(certificate=False).data


def test_stream__one_class_for_a_long_time() -> None:
    X, y = draw()
    of_one = X[y > 0][: 5 * BLOCK_ROWS]
    learner = StreamLearner(seed=3).add(of_one, np.ones(len(of_one)))
    found = learner.result()
    assert [one.code for one in found.notices] == [NoticeCode.ONE_CLASS]
    assert found.verdict is Verdict.INCONCLUSIVE
    for batch in batches((X, y), 40_000):
        learner.add(*batch)
    found = learner.result(certificate=False)
    assert found.halfspace is not None
    assert found.halfspace.plane.errors(X, y) / len(y) < 0.06


def test_stream__sorted_rows__no_bound_for_other_rows() -> None:
    """The noise comes at the end: a bound for independent rows would be false."""
    X, y = draw(rate=0.0)
    late = y.copy()
    late[2 * N_ROWS // 3 :] *= np.where(np.random.default_rng(0).random(len(y) - 2 * N_ROWS // 3) < 0.3, -1, 1)
    learner = StreamLearner(seed=3)
    for batch in batches((X, late.astype(np.int8)), 50_000):
        learner.add(*batch)
    found = learner.result(certificate=False)
    assert found.error is not None
    assert NoticeCode.ERRORS_CLUSTER in [one.code for one in found.notices]
    assert found.error.segments == 1 or found.error.upper > 0.1


@pytest.mark.parametrize("kind", ["pairs", "pandas", "arrow", "generator of frames"])
def test_fit__takes_an_iterator_of_batches(kind: str) -> None:
    X, y = draw(3 * BLOCK_ROWS)
    pairs = batches((X, y), 10_000)
    frames = (pd.DataFrame(a, columns=["a", "b", "c"]).assign(bought=b) for a, b in pairs)
    made: dict[str, Iterator[Any]] = {
        "pairs": pairs,
        "pandas": frames,
        "arrow": (pa.Table.from_pandas(one) for one in frames),
        "generator of frames": (one for one in frames),
    }
    label = {} if kind == "pairs" else {"label": "bought"}
    found = streamhalf.fit(made[kind], seed=3, **label)
    assert found.data.rows == 3 * BLOCK_ROWS
    assert found.data.features == (() if kind == "pairs" else ("a", "b", "c"))
    with pytest.raises(UsageError, match="checkpoint: not for batches"):
        streamhalf.fit(pairs, checkpoint="here")


def test_labels__of_any_two_kinds() -> None:
    X, _ = draw(200)
    first = X[:, 0] >= 0
    texts = np.where(first, "yes", "no")
    assert StreamLearner().add(X, texts).result().data.classes == ("no", "yes")
    one = StreamLearner(classes=("no", "yes"))
    assert one.add(X[first], texts[first]).add(X[~first], texts[~first]).result().data.classes == ("no", "yes")
    with pytest.raises(UsageError, match="name both classes"):
        StreamLearner().add(X[first], texts[first])
    bits = StreamLearner().add(X[first], np.ones(first.sum())).add(X[~first], np.zeros((~first).sum()))
    assert bits.result().data.classes == (0, 1)
    with pytest.raises(DataError, match="only 1 before"):
        StreamLearner().add(X[first], np.ones(first.sum())).add(X[~first], np.full((~first).sum(), 2))


def test_partial_fit() -> None:
    X, y = draw(12 * BLOCK_ROWS)
    names = np.where(y > 0, "buys", "leaves")
    model = HalfspaceTesterLearner(seed=3)
    for batch in batches((X, names), 40_000):
        model.partial_fit(*batch, classes=["buys", "leaves"])
    assert model.classes_.tolist() == ["buys", "leaves"]
    assert model.score(X, names) > 0.93
    assert model.result_.data.rows == 12 * BLOCK_ROWS


def test_page_of_streams__runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[1] / "docs" / "streams.md").read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    assert names["learner"].result(certificate=False).verdict is Verdict.ACCEPTED
