"""`HalfspaceTesterLearner`: the scikit-learn face of `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from streamhalf import api
from streamhalf.algorithms.unverified import learn_unverified
from streamhalf.config import RunConfig
from streamhalf.data.labelled import (
    Labelled,
    holds_labels,
    is_wrapped_array,
    map_rows,
    open_labelled,
)
from streamhalf.data.source import Source
from streamhalf.errors import DataError, NotAcceptedError, TargetError, UsageError
from streamhalf.events import Observer, ignore
from streamhalf.kernels.localize import margins
from streamhalf.records import (
    CertificateRecord,
    FitResult,
    Halfspace,
    PassRecord,
    Verdict,
    seal,
)
from streamhalf.reductions.halfspace_errors import HalfspaceErrors
from streamhalf.report.words import fit_sentence

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import ClassifierTags
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        "HalfspaceTesterLearner needs scikit-learn; pip install streamhalf[sklearn]"
    ) from error

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client
    from sklearn.utils import Tags

_DEFAULT = RunConfig()
_FLOATS = (np.float64, np.float32)


class HalfspaceTesterLearner(ClassifierMixin, BaseEstimator):
    """A halfspace of error O(opt) + eps, or a refusal with evidence.

    Features and labels are NumPy arrays (or anything scikit-learn makes one of), Dask arrays or
    xarray DataArrays; or one argument holds both: a path or URL of a Zarr store, a Zarr group, an
    xarray Dataset. Two classes of any kind; the larger one is +1.

    Parameters
    ----------
    eps, tau, degree, whiten, rows, schedule, certificate_degree, certificate_rows, max_ratio, seed
        As in `RunConfig`, which says what they mean.
    scheduler, n_workers, memory_limit, features, labels
        As in `RunConfig`.
    accept_unverified
        Use the vector even when the run was not accepted. With too few rows for a first try, all
        rows serve in every pass (`rows="reuse"`); with too few even for that, the (whitened) Chow
        direction is taken untested. `verdict_` says what happened.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The classes that -1 and +1 stand for.
    coef_ : ndarray of shape (1, n_features)
        Normal of the halfspace on raw features; NaN where the run has none.
    intercept_ : ndarray of shape (1,)
        Its offset.
    verdict_ : Verdict
        "accepted", "rejected" or "inconclusive"; only the first comes with a guarantee.
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
    certificate_: CertificateRecord | None
    passes_: tuple[PassRecord, ...]
    result_: FitResult
    n_features_in_: int

    def __init__(
        self,
        *,
        eps: float | str = _DEFAULT.eps,
        tau: float = _DEFAULT.tau,
        degree: int = _DEFAULT.degree,
        whiten: bool = _DEFAULT.whiten,
        rows: str = _DEFAULT.rows,
        schedule: str = _DEFAULT.schedule,
        certificate_degree: int | str = _DEFAULT.certificate_degree,
        certificate_rows: int | str = _DEFAULT.certificate_rows,
        max_ratio: float | None = _DEFAULT.max_ratio,
        seed: int = _DEFAULT.seed,
        scheduler: str = _DEFAULT.scheduler,
        n_workers: int | None = _DEFAULT.n_workers,
        memory_limit: int = _DEFAULT.memory_limit,
        features: str = _DEFAULT.features,
        labels: str = _DEFAULT.labels,
        accept_unverified: bool = False,
    ) -> None:
        self.eps = eps
        self.tau = tau
        self.degree = degree
        self.whiten = whiten
        self.rows = rows
        self.schedule = schedule
        self.certificate_degree = certificate_degree
        self.certificate_rows = certificate_rows
        self.max_ratio = max_ratio
        self.seed = seed
        self.scheduler = scheduler
        self.n_workers = n_workers
        self.memory_limit = memory_limit
        self.features = features
        self.labels = labels
        self.accept_unverified = accept_unverified

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        client: Client | None = None,
        storage_options: Mapping[str, Any] | None = None,
        observer: Observer = ignore,
    ) -> HalfspaceTesterLearner:
        """Test the features and learn a halfspace.

        Parameters
        ----------
        X
            Features, or data that hold their labels.
        y
            Labels; None where X holds them.
        client
            A `distributed` client to run on, instead of the `scheduler` parameter.
        storage_options
            For URLs; not kept, because they may hold credentials.
        observer
            Called with every event of the run.
        """
        config = self._config()
        found = self._open_training(X, y, storage_options)
        result = api.fit(found.source, client=client, observer=observer, **self._parameters())
        if result.halfspace is None and self.accept_unverified:
            result = _fit_few_rows(found.source, config, self._parameters(), client, observer)
        self.classes_ = found.classes
        self.n_features_in_ = found.source.dim
        self._keep(result)
        return self

    def decision_function(self, X: Any) -> Any:
        """normal·x + offset of every row: an array in the container of X, lazy where X is."""
        halfspace = self._usable_halfspace()
        return map_rows(
            partial(_margins, halfspace=halfspace), self._check_rows(X), dtype=np.float64
        )

    def predict(self, X: Any) -> Any:
        """The class of every row: an array in the container of X, lazy where X is."""
        halfspace = self._usable_halfspace()
        predict = partial(_predict, halfspace=halfspace, classes=self.classes_)
        return map_rows(predict, self._check_rows(X), dtype=self.classes_.dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted rightly; out of core where the data are."""
        if not (holds_labels(X) or is_wrapped_array(X)):
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise UsageError("sample_weight: not supported for data out of core; leave it out")
        halfspace, config = self._usable_halfspace(), self._config()
        source = self._open_arrays(X, y, None, classes=self.classes_).source
        self._check_dim(source.dim)
        errors = HalfspaceErrors(np.array(halfspace.normal), halfspace.offset)
        with api.open_run(config, None, ignore) as run:
            counted = run.reduce("score", source, errors)
        return float(1 - counted.n_errors / counted.n_rows)

    @property
    def diagnostics_(self) -> xr.Dataset:
        """What the testers measured, as a labelled Dataset."""
        check_is_fitted(self)
        return self.result_.diagnostics

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _parameters(self) -> dict[str, Any]:
        given: dict[str, Any] = self.get_params(deep=False)
        del given["accept_unverified"]
        return given

    def _config(self) -> RunConfig:
        return api.make_config(self._parameters())

    def _open_training(self, X: Any, y: Any, storage_options: Mapping[str, Any] | None) -> Labelled:
        if holds_labels(X) or is_wrapped_array(X):
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit, on a data frame
            return self._open_arrays(X, y, storage_options)
        X, y = validate_data(self, X, y, dtype=_FLOATS)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise TargetError(
                f"y: Only binary classification is supported. The type of the target is {kind}."
            )
        return self._open_arrays(X, y, None)

    def _open_arrays(
        self,
        X: Any,
        y: Any,
        storage_options: Mapping[str, Any] | None,
        classes: NDArray[Any] | None = None,
    ) -> Labelled:
        return open_labelled(
            X,
            y,
            features=self.features,
            labels=self.labels,
            storage_options=storage_options,
            classes=classes,
        )

    def _keep(self, result: FitResult) -> None:
        unknown = Halfspace((np.nan,) * self.n_features_in_, np.nan)
        halfspace = result.halfspace or unknown
        self.coef_ = np.array([halfspace.normal])
        self.intercept_ = np.array([halfspace.offset])
        self.verdict_ = result.verdict
        self.certificate_ = result.certificate
        self.passes_ = result.passes
        self.result_ = result

    def _usable_halfspace(self) -> Halfspace:
        """The halfspace, if the run was accepted or the user takes it all the same."""
        check_is_fitted(self)
        halfspace = self.result_.halfspace
        trusted = self.verdict_ is Verdict.ACCEPTED or self.accept_unverified
        if halfspace is None or not trusted:
            found = " ".join(fit_sentence(self.result_).split())
            raise NotAcceptedError(
                f"the run was {self.verdict_}, so there is no halfspace with a guarantee. {found} "
                "To use one without, set accept_unverified=True and fit again"
            )
        return halfspace

    def _check_rows(self, X: Any) -> Any:
        if not is_wrapped_array(X):
            return validate_data(self, X, dtype=_FLOATS, reset=False)
        if X.ndim != 2:
            raise DataError(f"X: shape {X.shape}; expected (rows, features)")
        self._check_dim(X.shape[1])
        return X

    def _check_dim(self, dim: int) -> None:
        if dim != self.n_features_in_:
            raise DataError(
                f"X: {dim} features, but the estimator was fitted on {self.n_features_in_}; give "
                "the same features"
            )


def _fit_few_rows(
    source: Source,
    config: RunConfig,
    parameters: dict[str, Any],
    client: Client | None,
    observer: Observer,
) -> FitResult:
    """All rows in every pass, or where they are too few even for that, the Chow direction."""
    result = api.fit(source, client=client, observer=observer, **{**parameters, "rows": "reuse"})
    if result.halfspace is not None:
        return result
    with api.open_run(config, client, observer) as run:
        return seal(learn_unverified(run, source, config, result))


def _margins(X: NDArray[Any], *, halfspace: Halfspace) -> NDArray[np.floating[Any]]:
    rows = np.asarray(X, dtype=np.float64)
    return margins(rows, np.array(halfspace.normal)) + halfspace.offset


def _predict(X: NDArray[Any], *, halfspace: Halfspace, classes: NDArray[Any]) -> NDArray[Any]:
    positive = _margins(X, halfspace=halfspace) >= 0
    chosen: NDArray[Any] = classes[positive.astype(np.intp)]
    return chosen
