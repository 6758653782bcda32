"""`StreamLearner`: rows that keep coming, each seen once; a result at any time, saved and resumed."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from streamhalf._session import make_config
from streamhalf.algorithms.kept import opened_sealed, write_sealed
from streamhalf.algorithms.stream import BLOCK_ROWS, StreamState
from streamhalf.config import RunConfig
from streamhalf.data.block import Block, RowRange, RowRanges
from streamhalf.data.kinds import is_dask_frame, is_frame, is_pandas
from streamhalf.data.opening import open_source
from streamhalf.data.schema import BITS, SIGNS, LabelCoding, RowSchema, array_of, distinct, find_coding
from streamhalf.errors import DataError, UsageError
from streamhalf.paths import Folder
from streamhalf.results import EncodingRecord, FitResult, from_json, replace, seal, to_json

MANIFEST, _SCHEMA = "stream.json", "streamhalf-stream-1"
_CHUNK = 1 << 62
_NAME_BOTH = "name both classes: StreamLearner(classes=(low, high))"


class StreamLearner:
    """Learns a halfspace from rows that keep coming, and says how good it is whenever asked.

    Each row is seen once, and none is kept but the last few thousand. Memory does not grow with the
    number of rows, and the sizes of batches make no difference. Bounds hold at all looks at once.

    Parameters
    ----------
    classes
        The labels that stand for -1 and +1; those of the rows, if both are among the first ones.
    label
        Column of the labels, of batches that are data frames.
    name
        What results call the stream.
    **parameters
        Fields of `RunConfig`. Columns of data frames must be numbers, unless `encode` is "auto":
        then the first batch settles how columns become features.
    """

    def __init__(
        self, *, classes: Iterable[Any] | None = None, label: str = "y", name: str = "stream", **parameters: Any
    ) -> None:
        self._config = make_config({"encode": "none", **parameters})
        self._label, self._name = label, name
        self._coding = None if classes is None else _coding_of(tuple(classes))
        self._seen: tuple[Any, ...] = ()
        self._columns: tuple[str, ...] = ()
        self._encoding: EncodingRecord | None = None
        self._state: StreamState | None = None
        self._waiting: list[Block] = []
        self._n_rows = 0

    @property
    def n_rows(self) -> int:
        """Rows so far."""
        return self._n_rows

    @property
    def n_waiting(self) -> int:
        """Rows of these that wait for more to be looked at together."""
        return sum(block.n_rows for block in self._waiting)

    @property
    def is_learned(self) -> bool:
        """True while a halfspace is there, its tests are done, and no other is learned beside it."""
        state = self._state
        return state is not None and state.is_quiet

    def add(self, X: Any, y: Any = None) -> StreamLearner:
        """Add rows; a batch that is refused changes nothing.

        Parameters
        ----------
        X
            Features (rows, features), or a data frame (pandas, Polars, Arrow), which may hold the
            column of the labels.
        y
            Labels; None where X holds them.
        """
        values, labels, columns, encoding = self._read(X, y)
        coding, seen = self._code(labels)
        dim = values.shape[1]
        if self._state is not None and dim != self._state.dim:
            raise DataError(f"X: {dim} features; the batches before had {self._state.dim}; give the same features")
        if self._columns and columns and columns != self._columns:
            raise DataError(f"X: columns {', '.join(columns[:8])}; the batches before had others; give the same")
        rows = RowRanges.of((RowRange(self._n_rows, self._n_rows + len(values)),))
        if len(values) == 0:
            return self
        block = RowSchema("X", "y", dim, coding, _CHUNK, _CHUNK, columns).block(rows, values, labels)
        block = Block(np.array(block.X), block.y, block.rows)  # the caller may use its array again
        # nothing is refused from here on
        self._coding, self._seen = coding, seen
        self._columns, self._encoding = columns or self._columns, encoding or self._encoding
        if self._state is None:
            self._state = StreamState(self._config, dim)
        self._n_rows += block.n_rows
        self._waiting.append(block)
        self._drain()
        return self

    def _drain(self) -> None:
        """Hand on whole blocks."""
        if self.n_waiting < BLOCK_ROWS or self._state is None:
            return
        block, start = Block.concatenate(self._waiting), 0
        with _alone():
            while start + BLOCK_ROWS <= block.n_rows:
                self._state.take(block.cut(slice(start, start + BLOCK_ROWS)))
                start += BLOCK_ROWS
        rest = block.cut(slice(start, None))
        self._waiting = [Block(rest.X.copy(), rest.y.copy(), rest.rows.copy())] if rest.n_rows else []

    def result(self, *, certificate: bool = True) -> FitResult:
        """The result so far: a document as `fit` returns it, of the rows that were looked at.

        Parameters
        ----------
        certificate
            False to leave out the bound L, whose search takes seconds.
        """
        if self._state is None:
            raise UsageError("result: no rows yet; add some")
        with _alone():
            found = self._state.result(
                name=self._name, search=certificate, columns=self._columns, waiting=self.n_waiting
            )
        coding = self._coding or SIGNS
        values = () if coding == SIGNS else RowSchema("X", "y", 1, coding, 1, 1).label_values
        data = replace(found.data, classes=values, encoding=self._encoding)
        return seal(replace(found, data=data))

    def save(self, folder: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> None:
        """Write all that is known, as plain arrays, to a folder from which `load` goes on.

        It holds the last rows that wait for others, and the secret seed of rows to come.

        Parameters
        ----------
        folder
            Path or URL; what an earlier `save` left there is replaced.
        storage_options
            For URLs: what fsspec takes for this kind of storage.
        """
        told = {
            "config": self._config.recorded() | {"seed_drawn": self._config.seed_drawn},
            "state": None if self._state is None else _emptied(self._state),
            "waiting": self._waiting,
            "coding": self._coding,
            "seen": self._seen,
            "columns": self._columns,
            "encoding": None if self._encoding is None else to_json(self._encoding),
            "label": self._label,
            "name": self._name,
            "n_rows": self._n_rows,
        }
        held = [] if self._state is None else [getattr(owner, name) for owner, name, _ in _places(self._state)]
        told["held"] = [one is not None for one in held]
        write_sealed(Folder(os.fspath(folder), storage_options), MANIFEST, _SCHEMA, told, held)

    @classmethod
    def load(cls, folder: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None) -> StreamLearner:
        """Go on from what `save` wrote.

        Parameters
        ----------
        folder, storage_options
            As of `save`.
        """
        place = Folder(os.fspath(folder), storage_options)
        missing = f"folder: {place.name} holds no saved stream; name the folder that save wrote"
        remedy = "start a new stream, or take an older copy"
        with opened_sealed(place, MANIFEST, _SCHEMA, missing=missing, remedy=remedy) as sealed:
            told, found = sealed.told, cls.__new__(cls)
            drawn = {name: told["config"][name] for name in ("seed", "seed_drawn")}
            found._config = dataclasses.replace(RunConfig(**{**told["config"], "seed_drawn": False}), **drawn)
            found._label, found._name, found._n_rows = told["label"], told["name"], told["n_rows"]
            found._coding = sealed.rebuilt("coding", LabelCoding | None)
            found._seen, found._columns = tuple(told["seen"]), tuple(told["columns"])
            encoding = told["encoding"]
            found._encoding = None if encoding is None else from_json(EncodingRecord, encoding, where=sealed.where)
            found._waiting = sealed.rebuilt("waiting", list[Block])
            found._state = state = sealed.rebuilt("state", StreamState | None)
            if state is not None:
                state.config = found._config
                places = [one for one, held in zip(_places(state), told["held"], strict=True) if held]
                for owner, name, statistic in places:  # errors first, of which tests depend
                    setattr(owner, name, statistic().empty(state.dim))
                partials = sealed.partials([getattr(owner, name) for owner, name, _ in places])
                for (owner, name, _), partial in zip(places, partials, strict=True):
                    setattr(owner, name, partial)
        return found

    def _read(self, X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any], tuple[str, ...], EncodingRecord | None]:
        """Features, labels, and the columns and encoding of a frame."""
        columns: tuple[str, ...] = ()
        encoding = None
        if is_dask_frame(X):
            raise UsageError("X: a Dask DataFrame is no batch; add its partitions one by one, or fit it as it is")
        if is_frame(X):
            if y is None:
                X, y = _without(X, self._label)
            source = open_source(
                X, labelled=False, encoding=self._encoding, encode=self._config.encode, missing=self._config.missing
            )
            if len(source.dropped):
                raise UsageError("missing: 'drop' is not for streams; leave rows with gaps out of the batch")
            columns, encoding = source.schema.columns, source.encoding
            values = source.read(RowRange(0, source.n_rows)).X
        else:
            if y is None:
                raise UsageError("y: not given; a batch is (X, y), or a data frame with a column of labels")
            values = array_of("X", X)
        labels = array_of("y", y)
        if values.ndim != 2 or labels.ndim != 1 or len(values) != len(labels):
            raise DataError(f"X, y: shapes {values.shape} and {labels.shape}; expected (rows, features) and (rows,)")
        return values, labels, columns, encoding

    def _code(self, labels: NDArray[Any]) -> tuple[LabelCoding, tuple[Any, ...]]:
        """The coding of the labels, and those that were seen before it was settled."""
        if self._coding is not None and len(self._seen) != 1:
            return self._coding, self._seen
        seen = tuple(distinct("y", np.array([*self._seen, *distinct("y", labels)])))
        if len(seen) > 1:
            coding = find_coding("y", np.array(seen))
            assert coding is not None
            if self._coding is not None and (self._seen[0] == coding.high) != (self._seen[0] == self._coding.high):
                raise DataError(
                    f"y: {seen[0]!r} and {seen[1]!r} found, but only {self._seen[0]!r} before; {_NAME_BOTH}"
                )
            return coding, seen
        if seen and seen[0] not in (-1, 0, 1):
            raise UsageError(f"y: only {seen[0]!r} so far; {_NAME_BOTH}")
        return BITS if seen == (0,) or labels.dtype.kind == "b" else SIGNS, seen


def learn_batches(batches: Iterable[Any], **parameters: Any) -> FitResult:
    """The result of all batches of an iterator: pairs (X, y), or data frames with a column of labels."""
    label = parameters.pop("label", parameters.pop("labels", "y"))
    learner = StreamLearner(label=label, **parameters)
    for number, batch in enumerate(batches):
        if isinstance(batch, tuple | list) and len(batch) == 2:
            learner.add(*batch)
        elif is_frame(batch):
            learner.add(batch)
        else:
            raise UsageError(
                f"batch {number}: {type(batch).__name__} given; expected a pair (X, y), or a data frame with the labels"
            )
    return learner.result()


@contextmanager
def _alone() -> Iterator[None]:
    """As in a pass: no warnings of NumPy, and one thread in each BLAS, for the search for L has its own."""
    with np.errstate(all="ignore"), threadpool_limits(limits=1):
        yield


def _coding_of(classes: tuple[Any, ...]) -> LabelCoding:
    found = find_coding("classes", array_of("classes", list(classes))) if len(classes) == 2 else None
    if found is None:
        raise UsageError(f"classes: {classes!r} given; name two, those of -1 and +1")
    return LabelCoding(*classes) if found not in (SIGNS, BITS) else found


def _without(frame: Any, label: str) -> tuple[Any, Any]:
    """A frame without its labels, and these."""
    import pyarrow as pa

    table = frame if is_pandas(frame) else pa.table(frame.collect() if hasattr(frame, "collect") else frame)
    names = [str(one) for one in (table.columns if is_pandas(frame) else table.column_names)]
    if label not in names:
        raise DataError(f"batch: no column {label!r} for the labels; found {', '.join(names)}; name it with label=")
    if is_pandas(frame):
        return table.drop(columns=[label]), table[label].to_numpy()
    return table.drop_columns([label]), table[label].to_numpy()


def _emptied(state: StreamState) -> StreamState:
    """The state without partials and configuration, which are written apart."""
    current, rival = (
        one and dataclasses.replace(one, errors=None, finals=None, closing=None, found=None)
        for one in (state.current, state.rival)
    )
    learning = state.learning and dataclasses.replace(state.learning, partial=None)
    config: Any = {}
    return dataclasses.replace(state, config=config, current=current, rival=rival, learning=learning, common=None)


def _places(state: StreamState) -> list[tuple[Any, str, Callable[[], Any]]]:
    """Where partials are: owner, attribute, and the statistic that they are of."""
    found: list[tuple[Any, str, Callable[[], Any]]] = []
    if state.learning is not None:
        found.append((state.learning, "partial", partial(state.statistic_of, state.learning)))
    for one in (state.current, state.rival):
        if one is not None:
            found += [(one, "errors", one.counts), (one, "finals", one.tests), (one, "closing", one.closing_needs)]
    return [*found, (state, "common", state.pair)]
