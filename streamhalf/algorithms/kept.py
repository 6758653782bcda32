"""A learned path with the mergeable statistics behind its result: more rows are added to them.

The path is fixed, so every further row is fresh for all of its steps. Partials of the final and of
the certificate pass of new rows are combined with those that were kept, and the answer is concluded
anew, for all rows. Bounds of all looks hold together: look k spends tau 6 / (pi² k²).
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamhalf import results
from streamhalf.algorithms.assemble import Closing
from streamhalf.algorithms.baselines import Baseline
from streamhalf.algorithms.final_pass import FinalPass
from streamhalf.algorithms.plan import BOUND_TAU
from streamhalf.algorithms.row_split import RowSubset
from streamhalf.algorithms.state import LocalizationState
from streamhalf.certificate.certification import Certification
from streamhalf.config import RunConfig
from streamhalf.data.block import RowRange, RowRanges
from streamhalf.data.transforms import Radial, RowTransform, make_transform
from streamhalf.engine.checkpoint import pack, unpack
from streamhalf.errors import DataError, UsageError
from streamhalf.events import Observer, ignore
from streamhalf.kernels.binomial import look_tau
from streamhalf.kernels.plane import Plane
from streamhalf.kernels.segments import Segments, merged_segments
from streamhalf.monitoring import Reference
from streamhalf.paths import Folder
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.errors import PlaneErrorsResult
from streamhalf.reductions.row_view import Accepted, Bundle
from streamhalf.reductions.rows import RowDigest
from streamhalf.reductions.segment_means import SegmentSums
from streamhalf.results.results import SettingValue
from streamhalf.testers import TESTERS

MANIFEST, RESULT, _SCHEMA = "state.json", "result.json", "streamhalf-state-1"
LARGEST_MANIFEST, _LARGEST_ARCHIVE = 256 << 20, 4 << 30
_ARCHIVES = ("arrays-0.npz", "arrays-1.npz")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CertificatePlan:
    """A `Certification` as plain values, but for the seed, which changes with the rows."""

    halfspace: results.Halfspace
    transform: results.TransformRecord
    through: results.HalfspaceClass
    effort: float
    error: float
    degree: int
    memory: int
    planes: tuple[Plane, ...]
    across: NDArray[np.float64] | None
    share: float

    @classmethod
    def of(cls, certification: Certification) -> CertificatePlan:
        names = {field.name for field in dataclasses.fields(cls)} - {"transform"}
        values = {name: getattr(certification, name) for name in names}
        return cls(transform=certification.row_transform.record, **values)

    def certification(self, seed: int) -> Certification:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        record = values.pop("transform")
        return Certification(row_transform=with_seed(record, seed), seed=seed, **values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Path:
    """All that was learned before held-out rows were looked at, as plain values.

    `state` is that before the final pass, its planes filled in, and `chosen` the candidate that is
    the answer. Of `first_rows`, those of the first look, a share `held_out` was measured.
    """

    settings: dict[str, SettingValue]
    state: LocalizationState
    baselines: tuple[Baseline, ...]
    transform: results.TransformRecord
    trials: tuple[results.TransformTrial, ...]
    notices: tuple[results.Notice, ...]
    chosen: int
    certificate: CertificatePlan | None
    first_rows: int
    held_out: float

    @property
    def plane(self) -> Plane:
        """The answer, among stored rows."""
        return self.state.planes[self.chosen]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """The statistics of a path over rows that are drawn with a seed, of `n_rows` rows in all."""

    path: Path
    seed: int
    tau: float
    n_rows: int

    @property
    def config(self) -> RunConfig:
        """The configuration of the path, with this seed and this look's tau."""
        return RunConfig(**{**self.path.settings, "seed": self.seed, "tau": self.tau})  # type: ignore[arg-type]

    @property
    def row_transform(self) -> RowTransform:
        """The transform of the path; lengths and signs that it draws come from this seed."""
        return with_seed(self.path.transform, self.seed)

    @property
    def start(self) -> LocalizationState:
        state = self.path.state
        return replace(state, plan=replace(state.plan, n_rows=self.n_rows), pinned=self.path.chosen)

    def final(self) -> FinalPass:
        first = RunConfig(**self.path.settings)  # type: ignore[arg-type]
        return FinalPass(
            self.start.plan,
            self.config,
            TESTERS,
            self.row_transform,
            self.path.baselines,
            sketch_seed=first.seed,
            tau_share=self.tau / first.tau,
        )

    def batches(self) -> tuple[Reduction[Any, Any], ...]:
        """The statistics of the final pass, by the batches that fit into one read."""
        return self.final().batches(self.start)

    def closing(self) -> Bundle:
        """The statistics of the certificate pass (else the digest of all rows), and of held-out rows beside them."""
        plan, n_rows = self.path.certificate, self.path.first_rows
        certificate = RowDigest(n_rows) if plan is None else plan.certification(self.seed).needs(n_rows)
        return Bundle((certificate, self.reference.statistic))

    @property
    def reference(self) -> Reference:
        path, config = self.path, self.config
        held_rows, halfspace = path.held_out * path.first_rows, results.Halfspace.of(path.plane)
        return Reference.of(path.first_rows, held_rows, config, halfspace, self.row_transform, path.state)

    def conclude(self, partials: Sequence[Any], start: LocalizationState | None = None) -> LocalizationState:
        """The state after the final pass, from the partials of its batches."""
        final, state = self.final(), start or self.start
        subset = RowSubset(RowRanges.of((RowRange(0, self.path.first_rows),)), self.seed, 0.0, self.path.held_out)
        for partial in partials:
            step = final.step(state, subset)
            state = step.conclude(step.statistic(self.row_transform).finalize(partial))
        return state

    def conclude_closing(self, partial: Any, observer: Observer = ignore, *, search: bool = True) -> Closing:
        """Certificate (None without a `search` for it), calibration and reference for new rows."""
        found, held_out = self.closing().finalize(partial)
        certificate = None
        if search and self.path.certificate is not None:
            certification = self.path.certificate.certification(self.seed)
            certificate = certification.conclude(found, tau=BOUND_TAU * self.tau, observer=observer)
        return certificate, *self.reference.conclude(held_out)

    def conclude_digest(self, partial: Any) -> int:
        """The sum of the hashes of all rows."""
        found = self.closing().finalize(partial)[0]
        return int((found if self.path.certificate is None else found[0]).total)


def with_seed(record: results.TransformRecord, seed: int) -> RowTransform:
    """The transform of a record; what it draws comes from this seed."""
    found = make_transform(record)
    return replace(found, seed=seed) if isinstance(found, Radial) else found


def in_segments(partial: Any, old_total: int, new_total: int, template: Any) -> Any:
    """A partial by segments of `old_total` rows, by those of `new_total` rows, as the template has."""

    def moved(values: NDArray[Any], like: NDArray[Any]) -> NDArray[Any]:
        return merged_segments(values, Segments(old_total, len(values)), Segments(new_total, len(like)))

    match partial:
        case PlaneErrorsResult():
            like = template.segment_rows
            errors = moved(partial.segment_errors.T, like).T
            return replace(partial, segment_rows=moved(partial.segment_rows, like), segment_errors=errors)
        case SegmentSums():
            like = template.counts
            return replace(partial, counts=moved(partial.counts, like), sums=moved(partial.sums, like))
        case Accepted():
            return replace(partial, inner=in_segments(partial.inner, old_total, new_total, template.inner))
        case tuple():
            pairs = zip(partial, template, strict=True)
            return tuple(in_segments(one, old_total, new_total, like) for one, like in pairs)
    return partial


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptState:
    """A result, its path, and the partials of all rows so far, by the batches of the final pass.

    `tau` is shared by all looks; `finals` hold segments of as many rows as the looks have.
    """

    result: results.FitResult
    path: Path
    tau: float
    finals: tuple[Any, ...]
    closing: Any

    @property
    def looks(self) -> tuple[results.LookRecord, ...]:
        return self.result.looks

    @property
    def n_rows(self) -> int:
        return self.looks[-1].stop

    @property
    def measurement(self) -> Measurement:
        last = self.looks[-1]
        return Measurement(path=self.path, seed=last.seed, tau=last.tau, n_rows=self.n_rows)

    def next_look(self, n_rows: int, seed: int) -> Measurement:
        tau = look_tau(self.tau, len(self.looks) + 1)
        return Measurement(path=self.path, seed=seed, tau=tau, n_rows=n_rows)

    def merged(self, finals: Sequence[Any], closing: Any, look: Measurement) -> tuple[tuple[Any, ...], Any]:
        found = tuple(
            reduction.combine(in_segments(old, self.n_rows, look.n_rows, new), new)
            for reduction, old, new in zip(look.batches(), self.finals, finals, strict=True)
        )
        return found, look.closing().combine(self.closing, closing)

    def save(self, folder: Folder) -> None:
        result = results.to_json(self.result)
        told = {"tau": self.tau, "path": self.path, "result": result}
        write_sealed(folder, MANIFEST, _SCHEMA, told, (self.finals, self.closing))
        folder.write(RESULT, json.dumps(result, indent=2, allow_nan=False).encode() + b"\n")

    @classmethod
    def load(cls, folder: Folder) -> KeptState:
        """Read a state; what is damaged is refused."""
        missing = f"state: {folder.name} holds no state; name the folder that fit --state wrote"
        remedy = "fit again with --state"
        with opened_sealed(folder, MANIFEST, _SCHEMA, label="state: ", missing=missing, remedy=remedy) as sealed:
            path, tau = sealed.rebuilt("path", Path), sealed.told["tau"]
            result = results.from_json(results.FitResult, sealed.told["result"], where=f"{sealed.where}: result")
            if not (results.is_as_written(result) and result.looks and 0 < tau < 1):
                raise ValueError("result, looks or tau are of no run")
            last = result.looks[-1]
            look = Measurement(path=path, seed=last.seed, tau=last.tau, n_rows=last.stop)
            needs, dim = (*look.batches(), look.closing()), path.plane.dim
            *finals, closing = sealed.partials([one.empty(dim) for one in needs])
        return cls(result=result, path=path, tau=tau, finals=tuple(finals), closing=closing)


@dataclass(frozen=True, slots=True, eq=False)
class Sealed:
    """The content of a manifest, and its archive: arrays that the manifest names, then partials."""

    where: str
    told: dict[str, Any]
    arrays: list[NDArray[Any]]
    content: bytes

    def rebuilt(self, name: str, kind: Any) -> Any:
        """Return a value that the manifest tells, as a type."""
        return msgspec.convert(self.told[name], kind, dec_hook=lambda _, one: self.arrays[one["array"]])

    def partials(self, templates: Sequence[Any]) -> Sequence[Any]:
        """Return all partials, in the shapes of templates."""
        found: list[Any] = unpack(self.content, [*self.arrays, *templates], self.where)
        return found[len(self.arrays) :]


def write_sealed(folder: Folder, name: str, schema: str, told: dict[str, Any], partials: Sequence[Any]) -> None:
    """Write an archive, then the manifest that names it; what was there stays whole until then."""
    arrays: list[NDArray[Any]] = []

    def moved(one: Any) -> Any:
        if isinstance(one, np.generic):
            return one.item()
        if isinstance(one, np.ndarray):
            arrays.append(one)
            return {"array": len(arrays) - 1}
        raise TypeError(f"{type(one).__name__} has no place in a state")

    plain = msgspec.to_builtins(told, enc_hook=moved, str_keys=True)
    content = pack((arrays, partials))
    before = folder.read(name, LARGEST_MANIFEST)
    file = _ARCHIVES[before is not None and _ARCHIVES[0].encode() in before]
    digest = hashlib.sha256(content).hexdigest()
    manifest = {"schema": schema, "told": plain, "n_arrays": len(arrays), "file": file, "digest": digest}
    folder.write(file, content)
    folder.write(name, json.dumps({**manifest, "seal": _seal(manifest)}, allow_nan=False).encode())


@contextmanager
def opened_sealed(
    folder: Folder, name: str, schema: str, *, missing: str, remedy: str, label: str = ""
) -> Iterator[Sealed]:
    """Read what `write_sealed` wrote; a damaged manifest is refused, whatever error it leads to."""
    where = f"{label}{folder.name}/{name}"
    written = folder.read(name, LARGEST_MANIFEST)
    if written is None:
        raise UsageError(missing)
    try:
        manifest = json.loads(written)
        if manifest["schema"] != schema:
            raise UsageError(f"{where} is of another version of streamhalf; go on with that one, or begin anew")
        if manifest.pop("seal") != _seal(manifest) or manifest["file"] not in _ARCHIVES:
            raise ValueError("its digest does not fit")
        content = folder.read(manifest["file"], _LARGEST_ARCHIVE)
        if content is None or hashlib.sha256(content).hexdigest() != manifest["digest"]:
            raise ValueError(f"{manifest['file']} is missing or damaged")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = [archive[f"arr_{number}"] for number in range(manifest["n_arrays"])]
        yield Sealed(where, manifest["told"], arrays, content)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError, msgspec.ValidationError) as error:
        raise DataError(f"{where} is damaged ({error}); {remedy}") from error


def _seal(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
