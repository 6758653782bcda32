"""`lazy`: statistics and verdicts as Dask collections, to be computed with the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from streamhalf._session import make_config, table_options
from streamhalf.algorithms.driver import moment_test_result, moment_tester
from streamhalf.config import RunConfig
from streamhalf.data.kinds import is_frame, is_table_path
from streamhalf.data.opening import DataLike, open_source
from streamhalf.data.source import Source, nearest_names
from streamhalf.engine import LazyResult, lazy_call, lazy_pass, plan_pass
from streamhalf.engine.job import SerialEngine
from streamhalf.engine.memory import at_once
from streamhalf.errors import DataError, UsageError
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.labels import Chow, LabelCounts
from streamhalf.reductions.moments import Moments
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.spread import Covariance, FeatureMoments
from streamhalf.results import Transform
from streamhalf.testers import Tester

if TYPE_CHECKING:
    import dask.array as da
    import xarray as xr
    from dask.delayed import Delayed

_STATISTICS: Mapping[str, Callable[[RunConfig], Reduction[Any, Any]]] = {
    "chow": lambda config: Chow(),
    "covariance": lambda config: Covariance(),
    "feature-moments": lambda config: FeatureMoments(),
    "labels": lambda config: LabelCounts(),
    "moments": lambda config: Moments(config.degree),
}
_TEST = "test"
_NAMES = (*_STATISTICS, _TEST)


@overload
def lazy(
    data: DataLike, statistic: Literal["test"], *, storage_options: Mapping[str, Any] | None = None, **parameters: Any
) -> Delayed: ...
@overload
def lazy(
    data: DataLike,
    statistic: Literal["chow", "covariance", "feature-moments", "labels", "moments"],
    *,
    storage_options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> xr.Dataset: ...
@overload
def lazy(
    data: DataLike,
    statistic: str | Reduction[Any, Any] | Tester,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Any: ...
def lazy(
    data: DataLike,
    statistic: str | Reduction[Any, Any] | Tester,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Any:
    """A statistic of all rows, or the verdict of a test, as Dask collections.

    Nothing is computed yet: `dask.compute` takes the result together with anything else, on the
    scheduler or cluster of the caller. Of Dask arrays no row is looked at before, but for a few
    labels where a statistic needs them. Rows are checked when they are read.

    Parameters
    ----------
    data
        Anything `open_source` takes. Features alone will do, unless the statistic needs labels
        ("labels", "chow").
    statistic
        The name of a statistic gives an xarray Dataset of lazy arrays with known shapes:

        - "feature-moments": `mean` and `deviation` (standard) of every feature,
        - "covariance": `mean` and `covariance`,
        - "moments": `feature_moment`, `pair_moment` (means of normalised Hermite polynomials, as in
          `FitResult.diagnostics`) and `monomials` up to the parameter `degree`,
        - "labels": rows that are `positive` and `negative`,
        - "chow": `vector`, the median of means of y x, with its `group_means`, and `mean_label`.

        "test" gives a Dask Delayed of the `MomentTestResult` of the rows as they are stored. A
        reduction gives a Dataset where its result names its `dims`, a Dask array where the result
        is an array, and else a Delayed of the result (a `Bundle` a tuple of these); a tester gives
        a Delayed of its test_results.
    storage_options
        For URLs: what fsspec takes for this kind of storage.
    **parameters
        Fields of `RunConfig`.
    """
    config = make_config(parameters)
    if isinstance(statistic, str) and statistic not in _NAMES:
        raise UsageError(f"statistic: {statistic!r} is unknown; {nearest_names(statistic, _NAMES)}")
    opened = partial(_open, data, config, storage_options)
    if statistic == _TEST:
        if config.feature_transform not in ("auto", Transform.STORED):
            raise UsageError(
                f"feature_transform: {config.feature_transform} takes several passes, of which the "
                "first decides about the others; a lazy test judges the rows as they are stored: leave "
                "it out, or use streamhalf.test"
            )
        source = opened(labelled=False)
        tester = moment_tester(source.dim, config)
        judge = partial(moment_test_result, tester, config, source.record)
        return lazy_call(judge, _result(source, tester.needs(), config))
    chosen: Any = _STATISTICS[statistic](config) if isinstance(statistic, str) else statistic
    judges = hasattr(chosen, "judge")
    needs = chosen.needs() if judges else chosen
    if not isinstance(needs, Reduction):
        raise UsageError(f"statistic: {chosen!r} is neither a name ({', '.join(_NAMES)}) nor a reduction or tester")
    source = opened(labelled=needs.reads_labels)
    result = _result(source, needs, config)
    if judges:
        return lazy_call(partial(chosen.judge, n_seen=source.n_rows), result)
    return _collections(chosen, result, source, named=chosen is not statistic)


def _open(data: DataLike, config: RunConfig, storage_options: Mapping[str, Any] | None, *, labelled: bool) -> Source:
    """Open data lazily; features alone where labels are not needed."""
    if labelled and getattr(data, "ndim", 0) == 2 and not is_frame(data):
        raise DataError("data: features without labels, which this statistic needs; give a pair (features, labels)")
    if not labelled and isinstance(data, tuple | list) and len(data) == 2:
        data = data[0]
    return open_source(
        data,
        features=config.features,
        labels=config.labels,
        # labels may be one of the columns of a table
        labelled=True if labelled else (None if is_frame(data) or is_table_path(data) else False),
        storage_options=storage_options,
        probe=False,
        **table_options(config),
    )


def _result(source: Source, reduction: Reduction[Any, Any], config: RunConfig) -> LazyResult:
    """Return a reduction of all rows; refused where a task takes more than memory_limit."""
    plan = plan_pass(reduction.name, source, reduction, split_every=config.split_every)
    if isinstance(config.memory_limit, int):  # where else it runs is not known
        at_once(SerialEngine(), f"pass {plan.name!r}", plan.task_nbytes(), config.memory_limit)
    return lazy_pass(plan)


def _collections(reduction: Reduction[Any, Any], result: LazyResult, source: Source, *, named: bool) -> Any:
    """A result as arrays, whose shapes are those of no rows; as it is where it names none."""
    if isinstance(reduction, Bundle):
        return tuple(
            _collections(member, lazy_call(itemgetter(i), result), source, named=named)
            for i, member in enumerate(reduction.members)
        )
    example = reduction.finalize(reduction.empty(source.dim))
    if isinstance(example, np.ndarray):
        return _array(result, example)
    if (dims := getattr(example, "dims", None)) is None:
        return result
    import xarray as xr

    arrays = {
        name: (own, _array(lazy_call(partial(_value, name), result), _value(name, example)))
        for name, own in dims.items()
    }
    dataset = xr.Dataset(arrays, attrs={"statistic": reduction.name, "n_rows": source.n_rows})
    if not named:  # features of a user's own reduction may be something else
        return dataset
    coordinates: dict[str, Any] = {
        name: np.arange(1, dataset.sizes[name] + 1)
        for name in ("feature", "other_feature", "degree")
        if name in dataset.sizes
    }
    if source.schema.columns and coordinates:
        coordinates["feature_name"] = ("feature", np.array(source.schema.columns))
    return dataset.assign_coords(coordinates)


def _value(name: str, result: Any) -> NDArray[Any]:
    return np.asarray(getattr(result, name))


def _array(result: LazyResult, example: NDArray[Any]) -> da.Array:
    from dask.array import from_delayed

    array: da.Array = from_delayed(result, shape=example.shape, dtype=example.dtype)
    return array
