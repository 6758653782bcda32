"""`dataset.streamhalf.fit()`: the API as methods of xarray Datasets, once registered."""

from __future__ import annotations

from typing import Any

import xarray as xr

from streamhalf import api
from streamhalf.label_issues.audit import Audited
from streamhalf.results import CertifyResult, FitResult, MomentTestResult

NAME = "streamhalf"


class DatasetAccessor:
    """Methods of a Dataset with features (row, feature) and labels (row).

    Parameters
    ----------
    dataset
        Given by xarray. Its variables are called "X" and "y" unless the parameters `features` and
        `labels` say otherwise.
    """

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def fit(self, **parameters: Any) -> FitResult:
        """As `streamhalf.fit`, on this Dataset."""
        result: FitResult = api.fit(self._dataset, **parameters)
        return result

    def test(self, **parameters: Any) -> MomentTestResult:
        """As `streamhalf.test`, on this Dataset."""
        return api.test(self._dataset, **parameters)

    def certify(self, *, weights: Any, **parameters: Any) -> CertifyResult:
        """As `streamhalf.certify`, on this Dataset."""
        return api.certify(self._dataset, weights=weights, **parameters)

    def audit(self, *, model: Any, **parameters: Any) -> Audited:
        """As `streamhalf.audit`, on this Dataset."""
        return api.audit(self._dataset, model=model, **parameters)


def register_accessor() -> None:
    """Give every xarray Dataset the attribute `streamhalf`; a second call changes nothing.

    Importing streamhalf leaves xarray as it is: only this call registers the accessor.
    """
    if getattr(xr.Dataset, NAME, None) is not DatasetAccessor:
        xr.register_dataset_accessor(NAME)(DatasetAccessor)
