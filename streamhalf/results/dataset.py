"""A fit's measurements as a labelled xarray Dataset: to plot, to select from, to store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from streamhalf.kernels.slabs import masses_about
from streamhalf.results.parts import CandidateRecord, DiagnosticsRecord, PassRecord, TestResult
from streamhalf.results.quality import CertificateRecord
from streamhalf.results.results import FitResult

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
}
_PASS_WORDS = {
    "rows_read": "rows read",
    "bytes_read": "bytes read",
    "rows_accepted": "rows the statistic was taken over",
    "seconds": "seconds",
    "bytes_moved": "bytes that came over the network",
    "requests": "requests to the storage",
}


def to_dataset(result: FitResult) -> xr.Dataset:
    """Every measurement of a fit, labelled; plain dtypes, so that Zarr and NetCDF take it.

    Dimensions: `slab` (margins along the halfspace), `edge_slab` (coarser slabs of the second
    moments), `feature`, `other_feature` and `degree`, `candidate`, `tester`, `pass_` and `angle`
    (of the certificate). What a run did not come to measure is left out.

    Parameters
    ----------
    result
        What `fit` returned, or `read_result` read.
    """
    parts = [_testers(result.testers), _passes(result.passes), _candidates(result.candidates)]
    if result.measurements is not None:
        parts += [_slabs(result.measurements), _edge_slabs(result.measurements)]
        parts.append(_moments(result.measurements))
    if result.halfspace is not None:
        normal = result.halfspace.normal
        values = _along("feature", normal, "normal of the halfspace, on raw features")
        coordinates: dict[str, Any] = {"feature": np.arange(1, len(normal) + 1)}
        if result.data.features:
            coordinates["feature_name"] = ("feature", _words(result.data.features))
        parts.append(xr.Dataset({"normal": values}, coordinates))
    if result.certificate is not None:
        parts.append(_certificate(result.certificate))
    merged = xr.merge(parts, join="exact", compat="no_conflicts")
    return merged.assign_attrs(_attributes(result))


def _attributes(result: FitResult) -> dict[str, Any]:
    """Plain scalars; what is None is left out, and truth is 0 or 1, as NetCDF wants it."""
    error, halfspace, measured = result.error, result.halfspace, result.measurements
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
        "opt_lower": None if result.opt is None else result.opt.lower,
        "opt_through": None if result.opt is None else str(result.opt.through),
        "digest": result.digest,
        "streamhalf": result.versions.streamhalf,
    }
    return {name: value for name, value in found.items() if value is not None}


def _slabs(record: DiagnosticsRecord) -> xr.Dataset:
    """Observed and Gaussian mass of the slabs along the halfspace; the outer two are tails."""
    counts = np.array(record.slab_counts, dtype=np.int64)
    if not counts.size:
        return xr.Dataset()
    half_count = (len(counts) - 2) // 2
    expected = masses_about(record.slab_width, half_count, record.threshold)
    variables = {
        "slab_count": _along("slab", counts, "rows in the slab"),
        "slab_mass": _along("slab", counts / max(1, int(counts.sum())), "observed mass"),
        "slab_mass_expected": _along("slab", expected, "mass under N(0, 1) of v·x"),
    }
    edges = record.slab_width * np.arange(-half_count, half_count + 1, dtype=np.float64)
    return xr.Dataset(variables, _slab_coordinates("slab", edges))


def _edge_slabs(record: DiagnosticsRecord) -> xr.Dataset:
    """Largest second moment orthogonal to the halfspace in each of the coarser slabs."""
    edges = np.array(record.eigen_edges, dtype=np.float64)
    if not edges.size:
        return xr.Dataset()
    words = "largest second moment orthogonal to the halfspace (N(0, I): about 1)"
    values = {"eigenvalue": _along("edge_slab", record.eigenvalues, words)}
    return xr.Dataset(values, _slab_coordinates("edge_slab", edges))


def _slab_coordinates(dim: str, edges: NDArray[np.float64]) -> dict[str, Any]:
    """Middles to plot over, and the edges; a tail's middle lies half its neighbour's width out."""
    widths = np.diff(edges) if len(edges) > 1 else np.ones(1)
    inner = (edges[:-1] + edges[1:]) / 2
    middles = [edges[0] - widths[0] / 2, *inner, edges[-1] + widths[-1] / 2]
    return {
        dim: _along(dim, middles, "margin, middle of the slab"),
        f"{dim}_low": _along(dim, [-np.inf, *edges], "lower edge"),
        f"{dim}_high": _along(dim, [*edges, np.inf], "upper edge"),
    }


def _moments(record: DiagnosticsRecord) -> xr.Dataset:
    """Hermite moments of features and, unless there are too many, of pairs."""
    moments = np.array(record.feature_moments, dtype=np.float64)
    feature, degree = (np.arange(1, n + 1) for n in moments.shape)
    words = {"long_name": "mean of the normalised Hermite polynomial (N(0, I): 0)"}
    found = xr.Dataset(
        {"feature_moment": (("feature", "degree"), moments, words)}, {"feature": feature, "degree": degree}
    )
    if not record.pair_moments:
        return found
    pairs = np.array(record.pair_moments, dtype=np.float64)
    words = {"long_name": "Hermite moment of degree 2 (N(0, I): 0)"}
    variable = (("feature", "other_feature"), pairs, words)
    return found.assign(pair_moment=variable).assign_coords(other_feature=feature)


def _candidates(candidates: tuple[CandidateRecord, ...]) -> xr.Dataset:
    """The path of the localisation, then the baselines."""
    if not candidates:
        return xr.Dataset()
    variables = _columns("candidate", candidates, _CANDIDATE_WORDS)
    acceptance = [one.rows_accepted / max(1, one.rows_seen) for one in candidates]
    variables["candidate_acceptance"] = _along("candidate", acceptance, "share of rows kept")
    coordinates = {
        "candidate": np.arange(len(candidates)),
        "candidate_method": ("candidate", _words(one.method for one in candidates)),
    }
    return xr.Dataset(variables, coordinates)


def _testers(test_results: tuple[TestResult, ...]) -> xr.Dataset:
    """Every test_result, named by its tester and its pass."""
    if not test_results:
        return xr.Dataset()
    needed = [np.nan if one.rows_needed is None else one.rows_needed for one in test_results]
    outcomes = _words(one.outcome for one in test_results)
    variables = _columns("tester", test_results, _TESTER_WORDS)
    variables["tester_rows_needed"] = _along("tester", needed, "rows that would settle it")
    variables["tester_outcome"] = _along("tester", outcomes, "outcome")
    coordinates = {
        "tester": np.arange(len(test_results)),
        "tester_name": ("tester", _words(one.tester for one in test_results)),
        "tester_pass": ("tester", _words(one.pass_name for one in test_results)),
    }
    return xr.Dataset(variables, coordinates)


def _passes(passes: tuple[PassRecord, ...]) -> xr.Dataset:
    """Return the reads of each pass, by its name."""
    if not passes:
        return xr.Dataset()
    variables = _columns("pass_", passes, _PASS_WORDS, prefix="pass")
    return xr.Dataset(variables, {"pass_": _words(one.name for one in passes)})


def _certificate(record: CertificateRecord) -> xr.Dataset:
    """The bound for every range of angles from the certificate's direction."""
    low = np.array([one.angle_low for one in record.profile])
    high = np.array([one.angle_high for one in record.profile])
    bound = [one.bound for one in record.profile]
    words = "angle to the certificate's direction, radians"
    return xr.Dataset(
        {"certificate_bound": _along("angle", bound, "no halfspace at this angle errs on less")},
        {
            "angle": _along("angle", (low + high) / 2, words),
            "angle_low": ("angle", low),
            "angle_high": ("angle", high),
            "angle_family": ("angle", _words(one.family for one in record.profile)),
        },
    )


def _columns(
    dim: str, records: Sequence[Any], words: dict[str, str], *, prefix: str | None = None
) -> dict[str, xr.Variable]:
    """One variable for each field, named prefix_field."""
    return {f"{prefix or dim}_{field}": _along(dim, _values(records, field), said) for field, said in words.items()}


def _values(records: Sequence[Any], field: str) -> list[Any]:
    """A field of each record, NaN where it was not measured."""
    values = (getattr(one, field) for one in records)
    return [np.nan if value is None else value for value in values]


def _along(dim: str, values: ArrayLike, words: str) -> xr.Variable:
    return xr.Variable((dim,), np.asarray(values), {"long_name": words})


def _words(values: Iterable[str]) -> NDArray[Any]:
    return np.array([str(value) for value in values], dtype=object)
