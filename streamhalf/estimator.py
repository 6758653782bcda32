"""`HalfspaceTesterLearner`: the scikit-learn face of `fit`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import partial
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import api
from streamhalf._models import warn_unverified
from streamhalf._session import as_seed, columns_like, execute, make_config, table_options
from streamhalf.config import SETTINGS, check_names
from streamhalf.data.kinds import is_dask_array, is_data_array, is_frame, is_pandas
from streamhalf.data.labelled import Labelled, holds_labels, map_rows, open_labelled, predict_rows
from streamhalf.data.schema import array_of, refuse_rounded
from streamhalf.data.table_source import map_frame
from streamhalf.errors import DataError, NotAcceptedError, TargetError, UsageError
from streamhalf.events import Observer, ignore
from streamhalf.kernels.plane import Plane
from streamhalf.label_issues.audit import Audited
from streamhalf.reductions.errors import PlaneErrors
from streamhalf.report.first_screen import promise_line
from streamhalf.results import (
    CalibrationRecord,
    CertificateRecord,
    FitResult,
    Halfspace,
    HalfspaceClass,
    PassRecord,
    Promise,
    Quality,
    Verdict,
)
from streamhalf.stream import StreamLearner

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import ClassifierTags
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("HalfspaceTesterLearner needs scikit-learn; pip install scikit-learn") from error

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client
    from sklearn.utils import Tags

_FLOATS = (np.float64, np.float32)
OWN: dict[str, Any] = {"fit_intercept": None, "random_state": None}  # Parameters that are no settings of a run
DEFAULTS: dict[str, Any] = {
    **{name: said.default for name, said in SETTINGS.items()},
    "certificate_degree": 0,  # the bound L takes longer than a fit: cross-validation has no use
    **OWN,
}


def fit_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of `fit` that are not the default: those may come from elsewhere."""
    settings = {name: value for name, value in given.items() if name not in OWN and not _is_default(name, value)}
    settings["certificate_degree"] = given["certificate_degree"]
    if given["random_state"] is not None:
        settings["seed"] = as_seed(given["random_state"])
    if given["fit_intercept"] is not None:
        settings["through"] = choose_through(given)
    return settings


def choose_through(given: Mapping[str, Any]) -> str:
    """The class of halfspaces, as `through` and `fit_intercept` say together."""
    wanted, through = given["fit_intercept"], given["through"]
    if wanted not in (True, False):
        raise UsageError(f"fit_intercept: {wanted!r} given; must be True, False or None")
    if through not in tuple(HalfspaceClass) or (wanted and through == HalfspaceClass.ANY):
        return str(through)
    # through the centre of rows that are whitened takes an intercept, which is not chosen
    fits = through == HalfspaceClass.ORIGIN or (through == HalfspaceClass.CENTRE and not given["whiten"])
    if wanted or not (fits or through == HalfspaceClass.ANY):
        remedy = "through='any'" if wanted else "through='origin'"
        raise UsageError(
            f"fit_intercept: {wanted} and through: {through!r} contradict each other; set "
            f"{remedy}, or leave fit_intercept out"
        )
    return str(HalfspaceClass.ORIGIN)


def _is_default(name: str, value: Any) -> bool:
    default = DEFAULTS[name]
    return type(value) is type(default) and bool(value == default)


class HalfspaceTesterLearner(ClassifierMixin, BaseEstimator):
    """A linear classifier with a bound on its error, and with what the tests promise of it.

    Features and labels are NumPy arrays (or anything scikit-learn makes one of), Dask arrays or
    xarray DataArrays; or one argument holds both: a path or URL of a Zarr store, a Zarr group, an
    xarray Dataset. Two classes of any kind; the larger one is +1.

    Parameters
    ----------
    **parameters
        The settings of `RunConfig` (eps, tau, whiten, ...), which says what they mean, and the
        following two. `certificate_degree` is 0 here: a fit costs no search for the bound L, as
        suits cross-validation; "auto" computes it.
    fit_intercept
        As everywhere in scikit-learn: True learns an intercept (`through="any"`, the default), and
        with False there is none (`through="origin"`; with `whiten`, features are then whitened
        about the origin). None is as `through` says.
    random_state
        As everywhere in scikit-learn: an int or a RandomState; another spelling of `seed`, before which it goes:
        ensembles set it.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes that -1 and +1 stand for.
    coef_ : ndarray of shape (1, n_features)
        Normal of the halfspace on raw features; NaN where the run has none.
    intercept_ : ndarray of shape (1,)
        Its offset; 0 for halfspaces through the origin.
    verdict_ : Verdict
        "accepted", "certified", "rejected" or "inconclusive".
    quality_, promise_ : Quality or None, Promise
        How good it is, how good any could be, and what is promised.
    certificate_ : CertificateRecord or None
        The certified interval of the error.
    passes_ : tuple of PassRecord
        What each pass read.
    result_ : FitResult
        The whole answer of `streamhalf.fit`.
    n_features_in_ : int
        Features of a row.
    """

    classes_: NDArray[Any]
    coef_: NDArray[np.float64]
    intercept_: NDArray[np.float64]
    verdict_: Verdict
    quality_: Quality | None
    promise_: Promise | None
    certificate_: CertificateRecord | None
    passes_: tuple[PassRecord, ...]
    result_: FitResult
    n_features_in_: int

    fit_intercept: bool | None
    random_state: Any
    features: str
    labels: str
    _learner: StreamLearner | None

    def __init__(self, **parameters: Any) -> None:
        check_names(parameters, (*DEFAULTS,), type(self).__name__)
        for name, value in {**DEFAULTS, **parameters}.items():
            setattr(self, name, value)

    # where scikit-learn and help() find names and defaults
    __init__.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
            *(Parameter(name, Parameter.KEYWORD_ONLY, default=one) for name, one in DEFAULTS.items()),
        ]
    )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        client: Client | None = None,
        storage_options: Mapping[str, Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        observer: Observer = ignore,
    ) -> HalfspaceTesterLearner:
        """Test the features and learn a halfspace.

        Parameters
        ----------
        X
            Features, or data that hold their labels.
        y
            Labels; None where X holds them.
        client, storage_options, observer
            As of `streamhalf.test`; none of them is kept (options may hold credentials).
        checkpoint, resume
            As of `streamhalf.fit`: the folder that takes the result of every pass, and whether to
            go on from what it holds.
        """
        self._learner = None
        parameters = self._parameters()
        make_config(parameters)  # names a wrong parameter before data are looked at
        found = self._open_training(X, y, storage_options)
        result = api.fit(
            found.source,
            client=client,
            storage_options=storage_options,
            checkpoint=checkpoint,
            resume=resume,
            observer=observer,
            **parameters,
        )
        self.classes_ = found.classes
        self._n_encoded = found.source.dim
        names = getattr(self, "feature_names_in_", None)
        self.n_features_in_ = found.source.dim if names is None else len(names)
        self._keep(result)
        warn_unverified(result, stacklevel=2)
        return self

    def partial_fit(self, X: Any, y: Any, *, classes: Any = None) -> HalfspaceTesterLearner:
        """Learn from further rows, each of which is seen once.

        The halfspace is that of the first path once it is learned; until then there is none.
        `result_` is what is known of it, without the bound L.

        Parameters
        ----------
        X, y
            Rows that no call has seen before.
        classes
            Both classes; needed in the first call where its rows do not show both.
        """
        learner = getattr(self, "_learner", None)
        X, y = validate_data(self, _exact(X), y, dtype=_FLOATS, reset=learner is None)
        if learner is None:
            known = np.unique(y) if classes is None else np.unique(classes)
            if len(known) != 2:
                raise TargetError(f"classes: {known.tolist()} found; give both classes in the first call")
            learner = StreamLearner(classes=known.tolist(), **self._parameters())
            self._learner, self.classes_, self._n_encoded = learner, known, X.shape[1]
        self._keep(learner.add(X, y).result(certificate=False))
        return self

    def decision_function(self, X: Any) -> Any:
        """normal·x + offset of every row: an array in the container of X, lazy where X is."""
        plane = self._usable_halfspace().plane
        return self._map(plane.margins, X, dtype=np.float64)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of both classes for every row, (rows, 2); lazy where X is.

        Isotonic regression on margins of held-out rows, kept on the side of 1/2 that the halfspace
        predicts.
        """
        halfspace, calibration = self._usable_halfspace(), self.result_.calibration
        if calibration is None:
            raise NotAcceptedError(
                f"the run was {self.verdict_} and ended before probabilities were calibrated; "
                "use decision_function, or fit without stop_early"
            )
        predict = partial(_probabilities, plane=halfspace.plane, calibration=calibration)
        return self._map(predict, X, dtype=np.float64, columns=2)

    def predict(self, X: Any) -> Any:
        """The class of every row: an array in the container of X, lazy where X is."""
        plane = self._usable_halfspace().plane
        predict = partial(predict_rows, plane=plane, classes=self.classes_)
        return self._map(predict, X, dtype=self.classes_.dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted rightly; out of core where the data are."""
        if not _is_out_of_core(X):
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise UsageError("sample_weight: not supported for data out of core; leave it out")
        halfspace, config = self._usable_halfspace(), make_config(self._parameters())
        source = self._open(X, y, classes=self.classes_, **columns_like(self.result_)).source
        self._check_dim(source.dim)
        needs = PlaneErrors((halfspace.plane,))
        counted: Any = execute("score", source, config, lambda run: run.reduce("score", source, needs), None, ignore)
        return float((counted.n_rows - counted.errors[0]) / counted.n_rows)

    def audit(
        self, X: Any, y: Any = None, *, storage_options: Mapping[str, Any] | None = None, **options: Any
    ) -> Audited:
        """List the rows whose labels look wrong, the surest first.

        Parameters
        ----------
        X, y
            As of `fit`: the rows that it learned from, or others.
        storage_options, **options
            As of `streamhalf.audit`: out, top, misclassified, probabilities, keep, overwrite, client, observer.
        """
        check_is_fitted(self)
        if _is_out_of_core(X) or (is_frame(X) and self.result_.data.encoding is not None):
            known = {"classes": self.classes_, "storage_options": storage_options}
            found = self._open(X, y, **known, **columns_like(self.result_))
        else:
            X, y = validate_data(self, _exact(X), y, dtype=_FLOATS, reset=False)
            found = self._open_arrays(X, y, classes=self.classes_)
        self._check_dim(found.source.dim)
        check_names(options, signature(api.audit).parameters, "audit")
        given = {"storage_options": storage_options, **options, **self._parameters()}
        audited: Audited = api.audit(found.source, model=self.result_, **given)
        return audited

    @property
    def diagnostics_(self) -> xr.Dataset:
        """Measurements of the testers, as a labelled Dataset."""
        check_is_fitted(self)
        return self.result_.diagnostics

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _parameters(self) -> dict[str, Any]:
        return fit_settings(self.get_params(deep=False))

    def _open_training(self, X: Any, y: Any, storage_options: Mapping[str, Any] | None) -> Labelled:
        if _is_out_of_core(X) or _is_mixed(X):
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit, on a data frame
            if is_frame(X):
                self.feature_names_in_ = np.array(columns_of_frame(X), dtype=object)
            return self._open(X, y, storage_options=storage_options)
        X, y = validate_data(self, _exact(X), y, dtype=_FLOATS)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise TargetError(f"y: Only binary classification is supported. The type of the target is {kind}.")
        return self._open_arrays(X, y)

    def _open_arrays(self, X: Any, y: Any, **known: Any) -> Labelled:
        columns = tuple(getattr(self, "feature_names_in_", ()))  # of the last data frame
        return self._open(X, y, names=columns, **known)

    def _open(self, X: Any, y: Any, **known: Any) -> Labelled:
        asked = table_options(make_config(self._parameters())) | known
        return open_labelled(X, y, features=self.features, labels=self.labels, **asked)

    def _map(self, function: Callable[[Any], Any], X: Any, *, dtype: Any, columns: int = 0) -> Any:
        """Apply a function of features to rows, in their container."""
        data = self.result_.data
        if not is_frame(X) or data.encoding is None:
            return map_rows(function, self._check_rows(X), dtype=dtype, columns=columns)
        if columns and hasattr(X, "map_partitions"):
            raise UsageError(
                "X: a Dask DataFrame has no probabilities in one array; use "
                "X.map_partitions(model.predict_proba), or give a pandas frame"
            )
        return map_frame(function, X, data.encoding, data.features, dtype=dtype)

    def _keep(self, result: FitResult) -> None:
        unknown = Halfspace((np.nan,) * self._n_encoded, np.nan)
        halfspace = result.halfspace or unknown
        self.coef_ = np.array([halfspace.normal])
        self.intercept_ = np.array([halfspace.offset])
        for name in ("verdict", "quality", "promise", "certificate", "passes"):
            setattr(self, f"{name}_", getattr(result, name))
        self.result_ = result

    def _usable_halfspace(self) -> Halfspace:
        """The halfspace, which every run has that did not end early."""
        check_is_fitted(self)
        halfspace = self.result_.halfspace
        if halfspace is None:
            found = promise_line(self.result_)
            raise NotAcceptedError(f"the run was {self.verdict_} and has no halfspace. {found}")
        return halfspace

    def _check_rows(self, X: Any) -> Any:
        if not (is_dask_array(X) or is_data_array(X)):
            return validate_data(self, _exact(X), dtype=_FLOATS, reset=False)
        if X.ndim != 2:
            raise DataError(f"X: shape {X.shape}; expected (rows, features)")
        self._check_dim(X.shape[1])
        return X

    def _check_dim(self, dim: int) -> None:
        if dim != self._n_encoded:
            fitted = f"the estimator was fitted on {self._n_encoded}"
            raise DataError(f"X: {dim} features, but {fitted}; give the same features")


def _is_out_of_core(X: Any) -> bool:
    """Return True for data that scikit-learn is not to make an array of."""
    return holds_labels(X) or is_dask_array(X) or is_data_array(X) or (is_frame(X) and not is_pandas(X))


def _is_mixed(X: Any) -> bool:
    """Return True for a pandas DataFrame with columns that are no numbers, or with gaps."""
    if not is_frame(X) or not is_pandas(X):
        return False
    plain = all(isinstance(one, np.dtype) and one.kind in "biuf" for one in X.dtypes)
    return not plain or bool(X.isna().to_numpy().any())


def columns_of_frame(X: Any) -> list[str]:
    names = getattr(X, "columns", None)
    return list(map(str, names if names is not None else X.collect_schema().names()))


def _exact(X: Any) -> Any:
    """Rows, unless scikit-learn would round them on the way to float64."""
    if is_frame(X):
        for name, dtype in X.dtypes.items():
            if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
                refuse_rounded("X", X[[name]].to_numpy(), (name,))
    elif isinstance(X, np.ndarray):
        refuse_rounded("X", X)
    elif isinstance(X, list | tuple):
        with contextlib.suppress(ValueError):  # ragged: scikit-learn says so
            refuse_rounded("X", array_of("X", X))
    return X


def _probabilities(
    X: NDArray[np.floating[Any]], *, plane: Plane, calibration: CalibrationRecord
) -> NDArray[np.float64]:
    """Return the probabilities of both classes: above 1/2 for the class that is predicted."""
    positive = calibration.of_sign(plane.unit().margins(X))
    return np.stack([1 - positive, positive], axis=1)
