"""A fit's measurements as a labelled xarray Dataset: to plot, to select from, to store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from streamhalf.kernels.slabs import masses_about
from streamhalf.results.codes import Record
from streamhalf.results.parts import DiagnosticsRecord
from streamhalf.results.quality import CertificateRecord
from streamhalf.results.results import FitResult

Variables: TypeAlias = dict[str, xr.Variable]
_CANDIDATE_WORDS = {
    "delta": "scale of the localisation (1: the Chow direction)",
    "step": "distance from the candidate before",
    "overlap": "w·v in the localised space",
    "rows_seen": "rows read by the update",
    "rows_accepted": "rows the localisation kept",
    "angle": "angle to the returned halfspace, radians",
    "error": "error on held-out rows",
    "threshold": "distance of the plane from the origin of the run's transform",
    "beta": "bound on the disagreement with any halfspace within eps",
}
_TESTER_WORDS = {
    "statistic": "what was measured",
    "limit": "largest statistic that soundness allows",
    "null_quantile": "largest statistic that chance alone reaches",
    "n_rows": "rows the tester saw",
    "rows_needed": "rows that would settle it",
}
_PASS_WORDS = {
    "rows_read": "rows read",
    "bytes_read": "bytes read",
    "rows_accepted": "rows the statistic was taken over",
    "seconds": "seconds",
    "bytes_moved": "bytes that came over the network",
    "requests": "requests to the storage",
}
# Coordinates beside those that are named like their dimension
_COORDINATES = {
    *("feature_name", "candidate_method", "tester_name", "tester_pass", "angle_low", "angle_high", "angle_family"),
    *("slab_low", "slab_high", "edge_slab_low", "edge_slab_high"),
}


def to_dataset(result: FitResult) -> xr.Dataset:
    """Every measurement of a fit, labelled; plain dtypes, so that Zarr and NetCDF take it.

    Dimensions: `slab` (margins along the halfspace), `edge_slab` (coarser slabs of the second moments), `feature`,
    `other_feature` and `degree`, `candidate`, `tester`, `pass_` and `angle` (of the certificate). What a run did not
    come to measure is left out.

    Parameters
    ----------
    result
        What `fit` returned, or `read_result` read.
    """
    candidates, testers, passes = result.candidates, result.testers, result.passes
    found = _columns("tester", testers, _TESTER_WORDS, {"name": "tester", "pass": "pass_name"})
    if testers:
        found["tester_outcome"] = _along("tester", _words(one.outcome for one in testers), "outcome")
    found |= _columns("pass_", passes, _PASS_WORDS, {}, prefix="pass")
    if passes:
        found["pass_"] = xr.Variable("pass_", _words(one.name for one in passes))
    found |= _columns("candidate", candidates, _CANDIDATE_WORDS, {"method": "method"})
    if candidates:
        acceptance = [one.rows_accepted / max(1, one.rows_seen) for one in candidates]
        found["candidate_acceptance"] = _along("candidate", acceptance, "share of rows kept")
    if result.measurements is not None:
        found |= _slabs(result.measurements) | _moments(result.measurements)
    if result.halfspace is not None:
        normal = result.halfspace.normal
        found["normal"] = _along("feature", normal, "normal of the halfspace, on raw features")
        found["feature"] = xr.Variable("feature", np.arange(1, len(normal) + 1))
        if result.data.features:
            found["feature_name"] = xr.Variable("feature", _words(result.data.features))
    if result.certificate is not None:
        found |= _profile(result.certificate)
    return xr.Dataset(found, attrs=_attributes(result)).set_coords([name for name in found if name in _COORDINATES])


def _attributes(result: FitResult) -> dict[str, Any]:
    """Plain scalars; what is None is left out."""
    error, halfspace, measured, opt = result.error, result.halfspace, result.measurements, result.opt
    labels = None if error is None else error.by_label
    found = {
        "verdict": str(result.verdict),
        "eps": result.eps,
        "tau": result.tau,
        "seed": result.seed,
        "fingerprint": result.data.fingerprint,
        "source": result.data.source,
        "rows": result.data.rows,
        "rows_needed": result.rows_needed,
        "split": str(result.split),
        "transform": str(result.transform.kind),
        "stop": str(result.stop.reason),
        "chosen": result.chosen,
        "offset": None if halfspace is None else halfspace.offset,
        "error": None if error is None else error.empirical,
        "error_upper": None if error is None else error.upper,
        "guess_error": None if labels is None else labels.guess_error,
        "balanced_error": None if labels is None else labels.balanced,
        "threshold": None if measured is None else measured.threshold,
        "opt_lower": None if opt is None else opt.lower,
        "opt_through": None if opt is None else str(opt.through),
        "digest": result.digest,
        "streamhalf": result.versions.streamhalf,
    }
    return {name: value for name, value in found.items() if value is not None}


def _slabs(record: DiagnosticsRecord) -> Variables:
    """Masses of slabs along the halfspace, of which the outer two are tails; second moments in coarser ones."""
    found: Variables = {}
    if record.slab_counts:
        counts = np.array(record.slab_counts, dtype=np.int64)
        half_count = (len(counts) - 2) // 2
        expected = masses_about(record.slab_width, half_count, record.threshold)
        found["slab_count"] = _along("slab", counts, "rows in the slab")
        found["slab_mass"] = _along("slab", counts / max(1, int(counts.sum())), "observed mass")
        found["slab_mass_expected"] = _along("slab", expected, "mass under N(0, 1) of v·x")
        edges = record.slab_width * np.arange(-half_count, half_count + 1, dtype=np.float64)
        found |= _slab_coordinates("slab", edges)
    if record.eigen_edges:
        words = "largest second moment orthogonal to the halfspace (N(0, I): about 1)"
        found["eigenvalue"] = _along("edge_slab", record.eigenvalues, words)
        found |= _slab_coordinates("edge_slab", np.array(record.eigen_edges))
    return found


def _slab_coordinates(dim: str, edges: NDArray[np.float64]) -> Variables:
    """Middles to plot over, and the edges; a tail's middle lies half its neighbour's width out."""
    widths = np.diff(edges) if len(edges) > 1 else np.ones(1)
    inner = (edges[:-1] + edges[1:]) / 2
    middles = [edges[0] - widths[0] / 2, *inner, edges[-1] + widths[-1] / 2]
    return {
        dim: _along(dim, middles, "margin, middle of the slab"),
        f"{dim}_low": _along(dim, [-np.inf, *edges], "lower edge"),
        f"{dim}_high": _along(dim, [*edges, np.inf], "upper edge"),
    }


def _moments(record: DiagnosticsRecord) -> Variables:
    """Hermite moments of features and, unless there are too many, of pairs."""
    moments = np.array(record.feature_moments, dtype=np.float64)
    features, degrees = (np.arange(1, n + 1) for n in moments.shape)
    words = "mean of the normalised Hermite polynomial (N(0, I): 0)"
    found = {
        "feature_moment": xr.Variable(("feature", "degree"), moments, {"long_name": words}),
        "feature": xr.Variable("feature", features),
        "degree": xr.Variable("degree", degrees),
    }
    if record.pair_moments:
        words = "Hermite moment of degree 2 (N(0, I): 0)"
        pairs = np.array(record.pair_moments, dtype=np.float64)
        found["pair_moment"] = xr.Variable(("feature", "other_feature"), pairs, {"long_name": words})
        found["other_feature"] = xr.Variable("other_feature", features)
    return found


def _profile(record: CertificateRecord) -> Variables:
    """The bound for every range of angles from the certificate's direction."""
    profile = record.profile
    middles = [(one.angle_low + one.angle_high) / 2 for one in profile]
    return {
        "certificate_bound": _along("angle", [one.bound for one in profile], "no halfspace at this angle errs on less"),
        "angle": _along("angle", middles, "angle to the certificate's direction, radians"),
        "angle_low": xr.Variable("angle", [one.angle_low for one in profile]),
        "angle_high": xr.Variable("angle", [one.angle_high for one in profile]),
        "angle_family": xr.Variable("angle", _words(one.family for one in profile)),
    }


def _columns(
    dim: str, records: Sequence[Record], numbers: dict[str, str], texts: dict[str, str], *, prefix: str = ""
) -> Variables:
    """A variable for each field, named dim_field, NaN where it was not measured; coordinates of text and position."""
    if not records:
        return {}
    found = {}
    for field, words in numbers.items():
        values = (getattr(one, field) for one in records)
        known = [np.nan if value is None else value for value in values]
        found[f"{prefix or dim}_{field}"] = _along(dim, known, words)
    for name, field in texts.items():
        found[f"{dim}_{name}"] = xr.Variable(dim, _words(getattr(one, field) for one in records))
    return {**found, dim: xr.Variable(dim, np.arange(len(records)))}


def _along(dim: str, values: ArrayLike, words: str) -> xr.Variable:
    return xr.Variable(dim, np.asarray(values), {"long_name": words})


def _words(values: Iterable[str]) -> NDArray[Any]:
    return np.array([str(value) for value in values], dtype=object)
