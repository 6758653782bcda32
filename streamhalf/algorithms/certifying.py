"""The certificate of a halfspace, in the position that tells most of it."""

from __future__ import annotations

from functools import partial
from typing import Any

from streamhalf.algorithms.answer import halfspace_of, held_out_error
from streamhalf.algorithms.localization_state import LocalizationState, turn
from streamhalf.algorithms.radial import estimate_radial
from streamhalf.algorithms.trials import in_position
from streamhalf.certificate.lower_bound import is_hopeless
from streamhalf.claims.certification import Certification
from streamhalf.claims.conflict_sets import ConflictSets, leaves_little, tells_more
from streamhalf.config import RunConfig
from streamhalf.data.positions import Radial, RowMap
from streamhalf.data.source import Source
from streamhalf.engine.run import Run
from streamhalf.errors import PositionError
from streamhalf.kernels.plane import Plane
from streamhalf.planning import budget
from streamhalf.records import CertificateRecord, Outcome, Position, Through
from streamhalf.reductions.base import Reduction

_NOTICEABLE = 0.15
"""Angle between two candidates, in units of the error, from which both are certified from: they
disagree on a twentieth of the error."""


_TOWARDS = 0.92
"""Part of the way to the first candidate: what hides best lies beyond the middle."""

_MUCH_ERROR = 0.02
"""Below this error the bound is close to it whatever the direction."""


def certify_state(
    run: Run, source: Source, config: RunConfig, row_map: RowMap, state: LocalizationState
) -> CertificateRecord | None:
    """The certificate of the chosen halfspace.

    Where noise next to the boundary makes an early candidate the best one, the last is nearer to
    the halfspace behind the noise, and slabs along it give the better bound.
    """
    halfspace, error = halfspace_of(state), held_out_error(state, row_map, config)
    ended = config.stop_early and state.outcome is Outcome.REJECTED
    if halfspace is None or error is None or ended or not config.certificate_degree:
        return None
    is_member = (state.chosen or 0) >= len(state.candidates)
    if isinstance(row_map, Radial) and is_member:
        row_map = row_map.moved_onto(halfspace.plane)
    certification = Certification.of(source, config, halfspace, row_map, error.empirical)
    if state.candidates:
        certification = towards(certification, state.candidates[0].plane, config)
    if not is_member:
        chosen, last = state.candidates[state.chosen or 0].plane, state.candidates[-1].plane
        if chosen.angle_to(last) > _NOTICEABLE * error.empirical:
            certification = certification.looking_from(last)
    found, _ = best_certificate(
        run,
        source,
        config,
        certification,
        tau=budget.BOUND * config.tau,
        may_be_heavy=state.outcome is not Outcome.PASSED,
    )
    return found


def towards(certification: Certification, first: Plane, config: RunConfig) -> Certification:
    """The same with boxes, where the Chow vector, the normal of `first`, is far from its plane.

    Noise that pulled it away leaves halfspaces on that side to hide best; boxes along both
    directions, about a plane between the two, tell most about them. Higher degrees than theirs gain
    nothing beside them, and are left to who names one.
    """
    own, error = certification.planes[0], certification.error
    angle = own.angle_to(first)
    if error <= _MUCH_ERROR or angle <= 2 * error:
        return certification
    named = config.certificate_degree != "auto"
    degree = certification.degree if named else certification.box_degree
    return certification.across_too(turn(own, first, _TOWARDS * angle), own.normal, degree)


def best_certificate(
    run: Run,
    source: Source,
    config: RunConfig,
    certification: Certification,
    *,
    tau: float,
    beside: Reduction[Any, Any] | None = None,
    may_be_heavy: bool = True,
) -> tuple[CertificateRecord, Any]:
    """The certificate of slab moments, or the count of sets of rows in conflict, if it tells more.

    All that may be looked at have an equal part of tau. Who names a degree asks for moments alone.
    Of rows that tests found Gaussian (not `may_be_heavy`) the radial position can tell no more.
    """
    moments = partial(_from_moments, run, source, config, certification, may_be_heavy=may_be_heavy)
    if config.certificate_degree != "auto":
        return moments(tau=tau / 2, beside=beside)
    each = tau / 3
    sets = ConflictSets.of_all(source, config, certification)
    if sets is not None:
        found, counted = sets.run(run, source, tau=each, beside=beside)
        if leaves_little(found, source.dim):
            return found, counted
        other, _ = moments(tau=each)
        return (found if tells_more(found, other) else other), counted
    found, counted = moments(tau=each, beside=beside)
    sets = ConflictSets.of_some(source, config, certification, found)
    if sets is None:
        return found, counted
    other, _ = sets.run(run, source, tau=each)
    return (other if tells_more(other, found) else found), counted


def _from_moments(
    run: Run,
    source: Source,
    config: RunConfig,
    certification: Certification,
    *,
    tau: float,
    may_be_heavy: bool,
    beside: Reduction[Any, Any] | None = None,
) -> tuple[CertificateRecord, Any]:
    """The certificate; where it says nothing, that of the radial position about the halfspace.

    Light tails are what slab moments tell most of, and the radial position has no others. Its
    centre is a point of the halfspace's own plane, so that both are of one class.
    """
    found, counted = certification.run(run, source, tau=tau, beside=beside)
    settled = found.opt.lower_empirical > 0 or found.error == 0
    hopeless = is_hopeless(found.n_rows, found.error, source.dim)
    if settled or hopeless or not may_be_heavy or isinstance(certification.row_map, Radial):
        return found, counted
    if config.position != "auto" or config.through != Through.ANY:
        return found, counted
    try:
        radial = estimate_radial(run, source, in_position(config, Position.RADIAL))
    except PositionError:
        return found, counted
    halfspace = certification.halfspace
    about = radial.moved_onto(halfspace.plane)
    other = Certification.of(source, config, halfspace, about, certification.error)
    again, _ = other.run(run, source, tau=tau, name="certificate-radial")
    better = again.opt.lower_empirical > found.opt.lower_empirical
    return (again if better else found), counted
