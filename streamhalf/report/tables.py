"""Tables of testers, passes and facts: all that a result says beside its figures."""

from __future__ import annotations

from collections.abc import Iterable

from streamhalf.records import (
    CertificateRecord,
    CertifyResult,
    FitResult,
    Judgement,
    Outcome,
    PassRecord,
)
from streamhalf.report.figures import Column, Table
from streamhalf.report.words import (
    ABSENT,
    QUESTIONS,
    TAU,
    count,
    nbytes,
    number,
    outcome_words,
    percent,
    seconds,
    worst_judgement,
)


def tester_summary(judgements: tuple[Judgement, ...]) -> Table:
    """One row for each tester: how often which outcome, and its worst word."""
    return Table(
        "Testers",
        (
            Column("tester", numeric=False),
            Column("outcomes", numeric=False),
            Column("worst"),
            Column("limit"),
            Column("in pass", numeric=False, name=True),
        ),
        tuple(_summary_row(name, own) for name, own in _by_tester(judgements)),
    )


def tester_details(judgements: tuple[Judgement, ...]) -> tuple[Table, ...]:
    """Every judgement, one table for each tester."""
    return tuple(_judgement_table(name, own) for name, own in _by_tester(judgements))


def _by_tester(judgements: tuple[Judgement, ...]) -> list[tuple[str, list[Judgement]]]:
    names = dict.fromkeys(one.tester for one in judgements)
    return [(name, [one for one in judgements if one.tester == name]) for name in names]


def _summary_row(name: str, own: list[Judgement]) -> tuple[str, ...]:
    counts = {outcome: sum(one.outcome is outcome for one in own) for outcome in Outcome}
    words = ", ".join(outcome_words(outcome, n) for outcome, n in counts.items() if n)
    worst = worst_judgement(own)
    if worst is None:
        return (name, words, ABSENT, ABSENT, ABSENT)
    return (name, words, number(worst.statistic), number(worst.limit), worst.pass_name)


def _judgement_table(name: str, own: list[Judgement]) -> Table:
    labels = ("pass", "outcome", "statistic", "limit", "chance alone", "rows", "worst", "remark")
    words = ("pass", "outcome", "worst", "remark")
    question = QUESTIONS.get(name, "")
    return Table(
        f"{name}: {len(own)} judgement{'s' * (len(own) > 1)}. {question}".strip(),
        tuple(Column(label, label not in words, label == "pass") for label in labels),
        tuple(
            (
                one.pass_name,
                outcome_words(one.outcome),
                *map(number, (one.statistic, one.limit, one.null_quantile)),
                count(one.n_rows),
                one.evidence[0].name if one.evidence else ABSENT,
                one.remark or ABSENT,
            )
            for one in own
        ),
    )


def pass_table(passes: tuple[PassRecord, ...]) -> Table:
    """What each pass read and took, and all of them together."""
    labels = ("pass", "rows read", "rows used", "bytes read", "time")
    rows = [
        (
            one.name,
            count(one.rows_read),
            count(one.rows_accepted),
            nbytes(one.bytes_read),
            seconds(one.seconds),
        )
        for one in passes
    ]
    read, size = sum(one.rows_read for one in passes), sum(one.bytes_read for one in passes)
    time = seconds(sum(one.seconds for one in passes))
    rows.append(("all", count(read), ABSENT, nbytes(size), time))
    return Table(
        "Passes",
        tuple(Column(label, label != "pass", label == "pass") for label in labels),
        tuple(rows),
    )


def fact_table(result: FitResult | CertifyResult) -> Table:
    """Data, parameters, versions and digests."""
    versions = result.versions
    facts = fit_facts(result) if isinstance(result, FitResult) else ()
    certificate = result.certificate
    rows = (
        ("source", result.data.source or ABSENT),
        ("rows", count(result.data.rows)),
        ("features", count(result.data.dim)),
        ("fingerprint of the data", result.data.fingerprint or ABSENT),
        *facts,
        *(certificate_facts(certificate) if certificate is not None else ()),
        (f"tau, {TAU}", number(result.tau)),
        ("streamhalf", versions.streamhalf),
        ("Python", versions.python),
        ("NumPy, Dask, Zarr", f"{versions.numpy}, {versions.dask}, {versions.zarr}"),
        ("schema", result.schema),
        ("digest of this document", result.digest or ABSENT),
    )
    return Table("Facts", (Column("fact", numeric=False), Column("value", numeric=False)), rows)


def fit_facts(result: FitResult) -> Iterable[tuple[str, str]]:
    """Parameters of a fit and what it measured."""
    yield "eps, accuracy judged", number(result.eps)
    yield "seed", str(result.seed)
    yield "how passes shared the rows", result.split
    yield "whitened", "yes" if result.whitened else "no"
    if result.chosen is not None:
        yield "returned candidate", str(result.chosen)
    if result.error is not None:
        yield "error on fresh rows", percent(result.error.empirical)
        yield "its upper bound", percent(result.error.upper)
        yield "fresh rows", count(result.error.n_rows)


def certificate_facts(certificate: CertificateRecord) -> Iterable[tuple[str, str]]:
    """What the certificate was made from."""
    yield "rows of the certificate", count(certificate.n_rows)
    yield "errors on them", count(certificate.n_errors)
    yield "degree of its slab moments", str(certificate.degree)
    yield "digest of every row", certificate.digest or ABSENT
