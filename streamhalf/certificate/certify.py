"""The certificate of a halfspace, for the class of halfspaces that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from streamhalf.algorithms.assemble import halfspace_of, held_out_error
from streamhalf.algorithms.plan import BOUND_TAU
from streamhalf.algorithms.state import LocalizationState, turn
from streamhalf.certificate.certification import Certification
from streamhalf.certificate.conflict_sets import ConflictSets, leaves_little, tells_more
from streamhalf.config import RunConfig
from streamhalf.data.source import Source
from streamhalf.data.transforms import RowTransform
from streamhalf.engine.run import Run
from streamhalf.kernels.plane import Plane
from streamhalf.monitoring import Reference
from streamhalf.reductions.base import Reduction
from streamhalf.reductions.row_view import Bundle
from streamhalf.reductions.rows import RowDigest
from streamhalf.results import CalibrationRecord, CertificateRecord, Outcome, WatchReference

Keep: TypeAlias = Callable[[Certification | None, Any], None]
# Angle between two candidates, in units of the error, from which both are certified from: they disagree on a
# twentieth of the error
_NOTICEABLE = 0.15
_TOWARDS = 0.92  # part of the way to the first candidate: what hides best lies beyond the middle
_MUCH_ERROR = 0.02  # below this error the bound is close to it whatever the direction


def certify_state(
    run: Run,
    source: Source,
    config: RunConfig,
    row_transform: RowTransform,
    state: LocalizationState,
    keep: Keep | None = None,
) -> tuple[CertificateRecord | None, CalibrationRecord | None, WatchReference | None]:
    """Return the certificate of the chosen halfspace; of held-out rows its calibration, and a reference for new ones.

    `keep` is called with the certification, if there is one, and the partial of its pass (else of a digest of all rows)
    beside that of held-out rows.

    Where noise next to the boundary makes an early candidate the best one, the last is nearer to the halfspace behind
    the noise, and slabs along it give the better bound.
    """
    halfspace, error = halfspace_of(state), held_out_error(state, row_transform, config)
    ended = config.stop_early and state.outcome is Outcome.REJECTED
    if halfspace is None or error is None or ended or state.held_out is None:
        return None, None, None
    held_rows = state.plan.held_out * source.n_rows
    reference = Reference.of(source.n_rows, held_rows, config, halfspace, row_transform, state)
    beside = state.held_out.restrict(reference.statistic)
    if not config.certificate_degree:
        if keep is None:
            return None, *reference.conclude(run.reduce("calibration", source, beside, blocks=state.held_out.blocks))
        both = Bundle((RowDigest(source.n_rows), beside))
        return None, *reference.conclude(run.reduce("calibration", source, both, keep=partial(keep, None))[1])
    is_member = (state.chosen or 0) >= len(state.candidates)
    certification = Certification.of(source, config, halfspace, row_transform, error.empirical)
    if state.candidates:
        certification = towards(certification, state.candidates[0].plane, config)
    if not is_member:
        chosen, last = state.candidates[state.chosen or 0].plane, state.candidates[-1].plane
        if chosen.angle_to(last) > _NOTICEABLE * error.empirical:
            certification = certification.looking_from(last)
    kept = None if keep is None else partial(keep, certification)
    found, counted = best_certificate(
        run, source, config, certification, tau=BOUND_TAU * config.tau, beside=beside, keep=kept
    )
    return found, *reference.conclude(counted)


def towards(certification: Certification, first: Plane, config: RunConfig) -> Certification:
    """The same with boxes, where the Chow vector, the normal of `first`, is far from its plane and they fit in memory.

    Noise that pulled it away leaves halfspaces on that side to hide best; boxes along both directions, about a plane
    between the two, tell most about them. Higher degrees than theirs gain nothing beside them, and are left to who
    names one.
    """
    own, error = certification.planes[0], certification.error
    angle = own.angle_to(first)
    if error <= _MUCH_ERROR or angle <= 2 * error:
        return certification
    named = config.certificate_degree != "auto"
    degree = certification.degree if named else certification.box_degree
    between = turn(own, first, _TOWARDS * angle).unit()
    both = replace(certification, planes=(between,), across=own.normal, degree=degree)
    return both if any(one.across for one in both.slabs(between)) else certification


def best_certificate(
    run: Run,
    source: Source,
    config: RunConfig,
    certification: Certification,
    *,
    tau: float,
    beside: Reduction[Any, Any] | None = None,
    keep: Callable[[Any], None] | None = None,
) -> tuple[CertificateRecord, Any]:
    """The certificate of slab moments, or the count of sets of rows in conflict, if it tells more.

    Both bound the class that was asked for. They have an equal part of tau. Who names a degree asks for moments alone.
    Who keeps partials, to which further rows are added, has those of the moments kept, and no count of sets.
    """
    if config.certificate_degree != "auto" or keep is not None:
        return certification.run(run, source, tau=tau, beside=beside, keep=keep)
    each = tau / 2
    sets = ConflictSets.of_all(source, config, certification)
    if sets is not None:
        found, counted = sets.run(run, source, tau=each, beside=beside)
        if leaves_little(found, source.dim):
            return found, counted
        other, _ = certification.run(run, source, tau=each)
        return (found if tells_more(found, other) else other), counted
    found, counted = certification.run(run, source, tau=each, beside=beside)
    sets = ConflictSets.of_some(source, config, certification, found)
    if sets is None:
        return found, counted
    other, _ = sets.run(run, source, tau=each)
    return (other if tells_more(other, found) else found), counted
