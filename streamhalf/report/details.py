"""Sentences for those who unfold a section: what a promise rests on, and how a bound was found."""

from __future__ import annotations

import math
from collections.abc import Iterator

from streamhalf.redact import plural
from streamhalf.report.words import (
    DISTRIBUTIONS,
    Names,
    at_least,
    at_most,
    confidence,
    constant,
    count,
    degrees,
    method_words,
    number,
    percent,
    stop_words,
    transform_words,
)
from streamhalf.results import (
    CertificateMethod,
    CertificateRecord,
    CertifyResult,
    FitResult,
    HalfspaceClass,
    Method,
    MomentTestResult,
    Outcome,
    TestResult,
    Transform,
    Verdict,
)
from streamhalf.results.quality import PromiseCode
from streamhalf.testers import WORDS
from streamhalf.testers.constants import FINEST_SCALE
from streamhalf.testers.leading import is_localized, leading_doubt, leading_rejection, leading_warning, telling_evidence
from streamhalf.testers.wedge import WedgeTester


def test_details(result: MomentTestResult | FitResult) -> Iterator[str]:
    """Yield what the telling tester saw, the transform, and what was not tested."""
    names = Names.of(result)
    if (rejection := leading_rejection(result.testers)) is not None:
        yield from _seen(rejection, names)
    elif (doubt := leading_doubt(result.testers)) is not None and doubt.statistic > doubt.limit:
        yield (
            f"Tester “{doubt.tester}” saw {number(doubt.statistic)}; its limit is "
            f"{number(doubt.limit)}, but chance alone reaches {number(doubt.null_quantile)}."
        )
    elif (warning := leading_warning(result.testers)) is not None:
        yield (
            f"Tester “{warning.tester}” warned in pass {warning.pass_name}; the deciding tests on "
            "held-out rows did not confirm it."
        )
    if result.transform.kind != Transform.STORED:
        counted = " Errors are counted on stored features." if isinstance(result, FitResult) else ""
        yield f"Tested: {transform_words(result.transform.kind)}.{counted}"
    sketched = next((one.directions for one in result.testers if one.directions is not None), None)
    if sketched is not None:
        yield (
            f"Moments above degree 2 were tested along {sketched} directions only; means and "
            "covariances in every direction."
        )


def _seen(one: TestResult, names: Names) -> Iterator[str]:
    """Yield what a rejecting tester saw."""
    if one.tester in WORDS:
        yield f"Tester “{one.tester}” rejects. It asks: {WORDS[one.tester].asks}"
    where = ", of rows near the boundary," if is_localized(one) else ""
    if (first := telling_evidence(one)) is not None:
        yield (
            f"Seen: {names.evidence(first)}{where} comes to {number(first.observed)}; a standard "
            f"Gaussian has {number(first.expected)}."
        )
    yield (
        f"The statistic is {number(one.statistic)}, the limit {number(one.limit)}; chance alone "
        f"stays below {number(one.null_quantile)}."
    )


def promise_details(result: FitResult) -> Iterator[str]:
    """Yield what the promise of a fit rests on."""
    kind = DISTRIBUTIONS.get(result.transform.kind, "Gaussian")
    if result.verdict is Verdict.REJECTED:
        yield f"The theorem speaks of {kind} features. The error and the lower bound hold anyway."
    elif result.verdict is Verdict.CERTIFIED:
        yield "The certificate holds for any features. The tests do not vouch for these."
    yield from test_details(result)
    if result.verdict is Verdict.ACCEPTED and result.error is not None:
        yield from _constants(result)
        yield from _wedge(result)
        if not result.seed_drawn and result.constant is not None:
            yield "The seed was given: an adversary who knew it voids the promise."


def _constants(result: FitResult) -> Iterator[str]:
    """Yield which constant the tests support, and what kind of statement that is."""
    eps, error = result.eps, result.error
    if result.constant is None or error is None:
        yield f"The tests passed at eps = {number(eps)}. {_no_constant(result)}"
        return
    class_ = Names.of(result).halfspaces(result.transform.through)
    yield (
        f"These tests support: error at most {constant(result.constant)} opt + {number(eps)}, "
        f"whichever labels were flipped. Here opt is the least error of a halfspace {class_}."
    )
    yield (
        f"{constant(result.constant)} is an empirical worst case: a program found none worse among "
        "distributions that pass. It is not a theorem."
    )
    if result.promise is not None and result.promise.code is PromiseCode.VACUOUS:
        allowed = at_most(result.constant * error.empirical + eps)
        yield f"With opt as large as the error that allows {allowed}, no better than guessing."
    if error.through == HalfspaceClass.ANY:
        yield "For halfspaces with a threshold no constant is known here."
    if result.rows_for_five is not None and result.constant > 5:
        yield f"About {count(result.rows_for_five)} rows would support a constant of 5."


def _no_constant(result: FitResult) -> str:
    """Return why no constant is known."""
    tested = [one for one in result.testers if one.tester == "quadratics"]
    if any(one.threshold for one in result.candidates if one.method is Method.PATH):
        return "For halfspaces with a threshold no constant is known here."
    if any(one.constant is None and one.deviation is not None for one in result.promises):
        return f"Constants are known down to eps = {number(FINEST_SCALE / 2)} only."
    if not tested or any(one.outcome is Outcome.NOT_JUDGED for one in tested):
        return "No constant is known: quadratics were not tested in every direction and scale."
    return "No constant is known here."


def _wedge(result: FitResult) -> Iterator[str]:
    """Yield what the wedge bound proves of halfspaces nearby."""
    own = [one for i, one in enumerate(result.candidates) if i == result.chosen]
    if not own or own[0].beta is None:
        return
    eta = wedge_scale(result)
    angle = degrees(2 * math.asin(min(1.0, eta / 2)))
    shift = ""
    if result.error is not None and result.error.through == HalfspaceClass.ANY:
        turned = eta**2 / 2
        most = max(0.0, eta * (1 - turned) - abs(own[0].threshold) * turned)
        shift = f", its threshold by {number(most)} at most"
    yield (
        f"Proved on held-out rows: a halfspace turned by up to {angle}{shift} disagrees with this "
        f"one on {at_most(own[0].beta)} at most."
    )


def wedge_scale(result: FitResult) -> float:
    """Return the scale of the wedge bound of the returned halfspace."""
    own = (one.scale for one in result.testers if one.tester == WedgeTester.name and one.candidate == result.chosen)
    scale: float | None = next(own, None)
    return abs(scale or result.eps)


def bound_details(result: FitResult | CertifyResult, certificate: CertificateRecord) -> Iterator[str]:
    """Yield the certified interval, how it was found, and where it is weakest."""
    opt, rows = certificate.opt, plural(certificate.n_rows, "row")
    class_ = Names.of(result).halfspaces(opt.through, certificate)
    yield f"U: on {rows}, this one errs on {percent(certificate.error)}."
    if certificate.n_errors == 0:
        yield "So L = 0 is the answer: these labels can be separated."
        return
    if opt.lower_empirical <= 0:
        yield f"L: no bound above 0 was found for halfspaces {class_}."
        return
    yield (
        f"L: on the same rows no halfspace {class_} errs on less than "
        f"{at_least(opt.lower_empirical)}, whatever the features."
    )
    if not certificate.comparable:
        yield "U and L concern different classes of halfspaces, so there is no factor."
    yield (
        f"For new rows from the same source L is {at_least(opt.lower)}, with confidence "
        f"{confidence(result.tau)} if rows are independent."
    )
    if certificate.method is CertificateMethod.SETS:
        found = plural(certificate.n_sets, "disjoint set")
        yield f"L was counted: no halfspace is right on all rows of any of {found} of rows."
    else:
        low, high = degrees(certificate.angle_low), degrees(certificate.angle_high)
        yield (
            f"L is weakest for halfspaces {low} to {high} from its direction. Where the curve "
            "dips, a better halfspace could hide."
        )


def candidate_details(result: FitResult) -> Iterator[str]:
    """Yield how the returned halfspace was found, and why the search ended."""
    if result.chosen is not None and result.candidates[result.chosen :]:
        chosen = method_words(result.candidates[result.chosen].method)
        yield (
            f"Found by {chosen}, and chosen on the held-out rows among "
            f"{plural(len(result.candidates), 'candidate')}; its bound accounts for the choice."
        )
    yield f"The search ended because {stop_words(result.stop)}."


def feature_details(result: FitResult) -> Iterator[str]:
    """Yield which rows and which halfspace the figures of the features are of."""
    shown = transform_words(result.transform.kind)
    yield f"Figures show {shown}. Gaussian features follow the lines."
    if shown_candidate(result) != result.chosen:
        yield "Margins are along the last candidate of the path, which the tests are about."


def shown_candidate(result: FitResult) -> int | None:
    """Return the candidate that slabs are of: the returned one, or the last one of the path."""
    path = [i for i, one in enumerate(result.candidates) if one.method is Method.PATH]
    return result.chosen if result.chosen in path or not path else path[-1]
