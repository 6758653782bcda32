"""How many labels are wrong, from rows that a person has reviewed: exact intervals."""

from __future__ import annotations

import csv
import itertools
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import betainc, betaln

from streamhalf.data.source import Source
from streamhalf.errors import DataError
from streamhalf.reductions.suspects import DrawnStrata, Stratum
from streamhalf.results.audit import CountInterval, ReviewRecord, StratumRecord

ANSWER = "wrong"  # The column that the reviewer fills
_DESIGN = ("stratum", "draw", "stratum_rows", "data_rows")
REVIEW_COLUMNS = ("row", "given_label", ANSWER, "label_score", *_DESIGN)  # Columns of the table that goes to a reviewer
_RESTORE = "restore what --review wrote and fill its column wrong alone"
_ANSWERS: dict[str, bool | None] = {
    **dict.fromkeys(("1", "y", "yes", "true", "wrong"), True),
    **dict.fromkeys(("0", "n", "no", "false", "right", "ok"), False),
    **dict.fromkeys(("?", "unsure", "maybe"), None),
}


def most_wrong(n_rows: int, n_reviewed: int, n_wrong: int, tau: float) -> int:
    """Return the largest number of wrong rows among `n_rows` that a sample does not exclude.

    The sample is drawn without replacement: the number of wrong ones in it is hypergeometric, and
    of the numbers returned at most a share `tau` is too small.
    """
    low, high = n_wrong, n_rows - (n_reviewed - n_wrong)
    while low < high:
        middle = (low + high + 1) // 2
        if _at_most(n_rows, middle, n_reviewed, n_wrong) > tau:
            low = middle
        else:
            high = middle - 1
    return low


def least_wrong(n_rows: int, n_reviewed: int, n_wrong: int, tau: float) -> int:
    """Return the smallest number of wrong rows that a sample does not exclude."""
    return n_rows - most_wrong(n_rows, n_reviewed, n_reviewed - n_wrong, tau)


def _at_most(n_rows: int, wrong: int, n_reviewed: int, found: int) -> float:
    """Return the probability of at most `found` wrong rows among those reviewed."""
    if n_rows > 1e12:  # beyond what logarithms of factorials tell apart: binomial, which is wider
        return float(betainc(n_reviewed - found, found + 1, 1 - wrong / n_rows))
    k = np.arange(max(0, n_reviewed - (n_rows - wrong)), min(found, wrong, n_reviewed) + 1)
    whole = _log_choose(n_rows, n_reviewed)
    terms = _log_choose(wrong, k) + _log_choose(n_rows - wrong, n_reviewed - k) - whole
    return float(np.exp(terms).sum())


def _log_choose(n: Any, k: Any) -> Any:
    return -np.log(n + 1.0) - betaln(n - k + 1.0, k + 1.0)


def judge_reviews(
    sizes: Mapping[Stratum, int], answers: Mapping[Stratum, Sequence[bool | None]], tau: float
) -> ReviewRecord:
    """Return what answers (wrong, right, None for unsure) say of the labels, at confidence 1 - tau.

    tau is shared by the two ends of all strata. An unsure row counts as right where a number is
    bounded from below, and as wrong where it is bounded from above.
    """
    share = tau / (2 * len(sizes))
    strata = []
    for stratum, n_rows in sizes.items():
        given = answers.get(stratum, ())
        wrong, unsure = sum(one is True for one in given), sum(one is None for one in given)
        low = least_wrong(n_rows, len(given), wrong, share)
        high = most_wrong(n_rows, len(given), wrong + unsure, share)
        strata.append(StratumRecord(stratum.value, n_rows, len(given), wrong, unsure, low, high))
    listed = [one for one in strata if one.name in (Stratum.TOP, Stratum.LIST)]
    reviewed = sum(one.n_reviewed for one in listed)
    return ReviewRecord(
        tau=tau,
        strata=tuple(strata),
        listed=_total(listed),
        rows=_total(strata),
        precision=sum(one.n_wrong for one in listed) / reviewed if reviewed else None,
        more_reviews=_more_reviews(strata, share),
    )


def _total(strata: Sequence[StratumRecord]) -> CountInterval:
    return CountInterval(*(sum(getattr(one, name) for one in strata) for name in ("low", "high", "n_rows")))


def _more_reviews(strata: Sequence[StratumRecord], share: float) -> int | None:
    """Return how many more rows, drawn alike, halve the interval of all rows; None if no number."""
    width = sum(one.high - one.low for one in strata)
    done = sum(one.n_reviewed for one in strata)
    if width == 0 or done == 0:
        return None
    for factor in (1.25 ** np.arange(1, 40)).tolist():
        total, reached = 0, 0
        for one in strata:
            n = min(one.n_rows, math.ceil(factor * one.n_reviewed))
            part = n / one.n_reviewed if one.n_reviewed else 0.0
            wrong, unsure = round(part * one.n_wrong), round(part * one.n_unsure)
            total += n
            reached += most_wrong(one.n_rows, n, min(n, wrong + unsure), share)
            reached -= least_wrong(one.n_rows, n, min(n, wrong), share)
        if 2 * reached <= width:
            return total - done
    return None


def review_columns(drawn: DrawnStrata, source: Source, keep: Sequence[str]) -> dict[str, Any]:
    """Return the table that goes to a reviewer, the strata one after the other."""
    rows, classes = np.concatenate(drawn.drawn), np.asarray(source.schema.label_values)
    counts = [len(one) for one in drawn.drawn]
    label = rows["label"] > 0
    return {
        "row": source.stored_numbers(rows["row"]),
        **source.kept_columns(rows["row"], keep),
        "given_label": classes[label.astype(np.intp)],
        ANSWER: np.full(len(rows), "", dtype="U1"),
        "label_score": rows["label_score"],
        "stratum": np.repeat([one.value for one in Stratum], counts),
        "draw": np.concatenate([np.arange(1, count + 1) for count in counts]),
        "stratum_rows": np.repeat(drawn.sizes, counts),
        "data_rows": np.full(len(rows), drawn.n_rows, dtype=np.int64),
    }


def read_reviews(
    path: str | os.PathLike[str], n_rows: int | None = None
) -> tuple[dict[Stratum, int], dict[Stratum, list[bool | None]]]:
    """Read a reviewed table: rows of each stratum, and the answers in the order of the draw.

    The first row of a stratum without an answer ends it, in the order of the draw, however the lines are sorted now:
    what counts are the first rows of a random order, whichever the reviewer liked to answer. `n_rows` are those of
    the data, where they are at hand.
    """
    name = os.fspath(path)
    said: dict[Stratum, dict[int, bool | None]] = {}
    sizes: dict[Stratum, int] = {}
    first: dict[Any, int] = {}
    total = 0
    for number, line in enumerate(_read_lines(name), start=2):
        where = f"reviewed: {name}, line {number}"
        try:
            stratum = Stratum(line["stratum"])
            draw, size, total = (int(line[one]) for one in _DESIGN[1:])
        except (TypeError, ValueError) as error:
            raise DataError(f"{where}: {error}; {_RESTORE}") from error
        if (before := first.setdefault(line["row"], number)) != number:
            raise DataError(f"{where}: row {line['row']} is in line {before} too; leave one of them")
        again = first.setdefault((stratum, draw), number) != number
        if again or sizes.setdefault(stratum, size) != size or not 1 <= draw <= size:
            raise DataError(f"{where}: draw {draw} of {size:,} rows does not fit the lines above; {_RESTORE}")
        text = (line[ANSWER] or "").strip().lower()
        if text and text not in _ANSWERS:
            raise DataError(f"{where}: {ANSWER} is {line[ANSWER]!r}; answer yes (1, true), no (0, false), ? or nothing")
        said.setdefault(stratum, {}).update({draw: _ANSWERS[text]} if text else {})
    if (held := sum(sizes.values())) != total:
        absent = ", ".join(one.value for one in Stratum if one not in sizes)
        missing = f", or all lines are missing of: {absent}" if absent and held < total else ""
        raise DataError(
            f"reviewed: {name}: stratum_rows of the strata make {held:,}, but data_rows is {total:,}: "
            f"one of these columns was changed{missing}; {_RESTORE}"
        )
    if n_rows not in (None, total):
        raise DataError(f"reviewed: {name} is of data with {total:,} rows, these have {n_rows:,}; give those")
    draws = {stratum: itertools.takewhile(found.__contains__, itertools.count(1)) for stratum, found in said.items()}
    return sizes, {stratum: [said[stratum][draw] for draw in some] for stratum, some in draws.items()}


def _read_lines(name: str) -> list[dict[str, str]]:
    try:
        with open(name, encoding="utf-8-sig", newline="") as file:
            text = file.read()
    except OSError as error:
        raise DataError(f"reviewed: {name} cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise DataError(f"reviewed: {name} is not UTF-8; save it as CSV UTF-8") from error
    header = text.partition("\n")[0]
    lines = list(csv.DictReader(text.splitlines(), delimiter=";" if header.count(";") > header.count(",") else ","))
    missing = [one for one in (ANSWER, "row", *_DESIGN) if not lines or one not in lines[0]]
    if missing:
        raise DataError(
            f"reviewed: {name} has no column {missing[0]!r}; give the file that --review wrote, "
            f"with the column {ANSWER!r} filled"
        )
    return lines
