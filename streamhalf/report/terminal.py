"""The verdict on a terminal: in words first, then the testers and the evidence."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

from rich.console import Console, JustifyMethod
from rich.panel import Panel
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from streamhalf import results
from streamhalf.data.inspection import StoreReport
from streamhalf.redact import plural
from streamhalf.report import tables, words
from streamhalf.report.codes import ABSENT, count, nbytes, promise, seconds
from streamhalf.report.facts import seed_words
from streamhalf.report.features import speaking_of
from streamhalf.report.notices import notice_words
from streamhalf.report.rejections import leading_rejection
from streamhalf.report.tables import Cells, Table

_SPARE = "spare: for updates that repeat"
_BESIDE = ("sample", "regression", "certificate")
"""Passes that test nothing and take no rows from others."""

_STYLES = {
    r"(?i)(\d+ )?(passed|accepted)": "green",
    r"(?i)certified": "cyan",
    r"(?i)(\d+ )?(rejected|impossible)": "bold red",
    r"(?i)(\d+ )?inconclusive": "yellow",
    r"(\d+ )?((extra, )?not judged|noticed|began anew)": "dim",
    "yes": "green",
    "NO": "bold red",
}
"""How verdicts, outcomes and answers look."""

_STYLED = ("outcome", "outcomes", "holds")
"""Columns that hold them."""

_DIGEST, _SHOWN = re.compile(r"\b[0-9a-f]{32,}\b"), 12

_CLAIM: Cells = {
    "claim": lambda one: one.name,
    "holds": lambda one: "yes" if one.holds else "NO",
    "claimed": lambda one: _shortened(one.claimed),
    "recomputed": lambda one: _shortened(one.recomputed),
}


def _shortened(value: str) -> str:
    """A digest by its beginning, which tells it from any other; the record has it in full."""
    return _DIGEST.sub(lambda found: f"{found[0][:_SHOWN]}…", value)


def show_test(console: Console, result: results.MomentTestResult) -> None:
    """The verdict of a moment test, its testers, and the evidence."""
    show_panel(console, words.moment_sentence(result), result.verdict)
    labels = ("tester", "outcome", "statistic", "limit", "chance alone", "rows", "remark")
    judged = [
        one if one.has_say else results.replace(one, limit=math.nan) for one in result.testers
    ]
    show_table(console, tables.result_table("Testers", judged, *labels))
    for test_result in result.testers:
        if test_result.outcome is results.Outcome.REJECTED:
            with speaking_of(result):
                _show_evidence(console, test_result, result.transform.kind)


def show_fit(console: Console, result: results.FitResult) -> None:
    """The verdict of a fit, its testers, and the leading evidence."""
    show_panel(console, words.fit_sentence(result), result.verdict)
    _show_labels(console, result)
    if any(one.outcome is not results.Outcome.PASSED for one in result.transforms):
        show_table(console, tables.transform_table(result))
    if result.testers:
        show_table(console, tables.tester_summary(result.testers))
    if (rejection := leading_rejection(result.testers)) is not None:
        with speaking_of(result):
            _show_evidence(console, rejection, result.transform.kind)
    if result.testers:
        _show_seed(console, result)


def show_certificate(console: Console, result: results.CertifyResult) -> None:
    """The certified interval of a classifier."""
    show_panel(console, words.certify_sentence(result), "certificate")
    _show_labels(console, result)
    if result.certificate.share < 1:
        _show_seed(console, result)


def show_verification(console: Console, result: results.VerifyResult) -> None:
    """Every claim, and whether it holds."""
    show_table(console, Table.of("Claims", _CLAIM, result.claims, words=tuple(_CLAIM)))
    failed = sum(not claim.holds for claim in result.claims)
    if not failed:
        console.print("every claim holds", style="green")
        return
    verb = "does" if failed == 1 else "do"
    console.print(f"{plural(failed, 'claim')} {verb} not hold", style="bold red", highlight=False)
    if any(claim.name == results.AS_WRITTEN and not claim.holds for claim in result.claims):
        console.print("the document was changed after it was written: its digest does not fit")


def show_plan(console: Console, record: results.PlanRecord) -> None:
    """Rows, eps, what it would support, passes, bytes and memory."""
    console.print(words.plan_sentence(record), highlight=False)
    show_table(console, _budget_table(record))
    console.print(words.plan_details(record), highlight=False)


def _budget_table(record: results.PlanRecord) -> Table:
    """What the passes use and read, in how many tasks if that is known, and would support."""
    known = any(one.n_tasks is not None for one in record.passes)
    wanted = (True, True, True, known, bool(record.promises))
    labels = ("pass", "rows used", "read", "tasks", "supports, about")
    rows = (labels, *_budgets(record))
    head, *body = (tuple(itertools.compress(row, wanted)) for row in rows)
    return Table("Passes", head, tuple(body), words=("pass",))


def _budgets(record: results.PlanRecord) -> Iterator[tuple[str, str, str, str, str]]:
    """What the passes use, read and would support; rows add up unless passes share them."""
    supported = {one.delta: promise(one) for one in record.promises}
    for one in record.passes:
        tested = "" if one.name in _BESIDE else supported.get(one.delta or 1.0, "")
        yield one.name, count(one.rows), nbytes(one.nbytes), count(one.n_tasks), tested
    # rows that others have learned from, or that are held out, are used once more
    again = (*_BESIDE, results.Stage.REFINE, results.Stage.THRESHOLDS)
    rows = sum(one.rows for one in record.passes if one.name not in again)
    at_hand = any(one.n_tasks is not None for one in record.passes)
    planned = record.rows if record.conclusive or at_hand else record.rows_needed
    updates = any(one.delta is not None for one in record.passes)
    if rows < planned and updates:  # not where passes share their rows
        yield _SPARE, count(planned - rows), "", "", ""
    tasks = sum(one.n_tasks or 0 for one in record.passes)
    yield "all", count(planned), nbytes(record.nbytes), count(tasks), ""


def show_dry_run(console: Console, found: results.DryRunResult) -> None:
    """Who would work, with what, how they read, and what the run would take."""
    console.print(words.dry_run_sentence(found), highlight=False)
    rows = tuple(
        (
            one.address,
            count(one.n_threads),
            ABSENT if one.memory_nbytes is None else nbytes(one.memory_nbytes),
            f"{count(one.rows_read)} rows, {nbytes(one.bytes_read)}" if one.rows_read else ABSENT,
            seconds(one.seconds) if one.rows_read else ABSENT,
        )
        for one in found.workers
    )
    labels = ("worker", "threads", "memory for tasks", "has read", "in")
    show_table(console, Table("Workers", labels, rows, words=("worker",)))
    for worker, name, there, here in found.differences:
        line = f" worker {worker} has {name} {there}, this process {here}"
        console.print(Text.assemble(("notice:", "yellow"), line), soft_wrap=True)
    show_plan(console, found.plan)
    console.print(words.dry_run_details(found), highlight=False)


def show_store(console: Console, report: StoreReport) -> None:
    """What `inspect` found."""
    facts = Grid("", Column(overflow="fold"), box=None, show_header=False, pad_edge=False)
    for name, value in _store_facts(report):
        facts.add_row(Text(name, "bold"), Text(value))
    console.print(facts)
    for label, lines, style in (
        ("missing", report.missing, "bold red"),
        ("notice", tuple(map(notice_words, report.notices)), "yellow"),
        ("advice", report.advice, "cyan"),
    ):
        for line in lines:
            console.print(Text.assemble((f"{label}:", style), f" {line}"), soft_wrap=True)


def _store_facts(report: StoreReport) -> Iterator[tuple[str, str]]:
    yield "store", f"{report.source} (Zarr v{report.zarr_format})"
    yield "rows", f"{report.rows:,}"
    yield "features", f"{report.dim:,}"
    yield "labels", report.labels
    for array in report.arrays:
        layout = f"chunks {array.chunks}" + (f" in shards {array.shards}" if array.shards else "")
        whole = "unknown" if array.n_missing is None else f"{array.n_missing:,}"
        yield (
            array.name,
            f"{array.dtype} {array.shape}, {layout}, {array.nbytes / 2**20:,.1f} MiB in "
            f"{array.n_objects:,} objects, missing: {whole}, codecs: {' > '.join(array.codecs)}",
        )
    yield "values", "a few rows were looked at; every run checks all of them for NaN and labels"
    yield "fingerprint", report.fingerprint
    if planted := report.planted:
        shown = {key: one for key, one in planted.items() if not isinstance(one, list | dict)}
        yield "planted", ", ".join(f"{key} {value}" for key, value in shown.items())


def show_panel(console: Console, said: str, title: str) -> None:
    """What was found, in a frame with a title."""
    shown = _styled(title.upper())
    console.print(Panel(Text(said), title=shown, title_align="left", expand=False))


def _show_labels(console: Console, result: results.FitResult | results.CertifyResult) -> None:
    if (table := tables.label_table(result)).rows:
        show_table(console, table)


def _show_seed(console: Console, result: results.FitResult | results.CertifyResult) -> None:
    said = f"seed {seed_words(result)}; --seed repeats this run with it"
    console.print(said, style="dim", highlight=False, soft_wrap=True)


def _show_evidence(console: Console, test_result: results.TestResult, kind: str) -> None:
    layout = Grid(box=None, pad_edge=False)
    layout.title = Text(f"evidence: {test_result.tester}", "table.title")
    layout.caption = words.evidence_features(kind) or None
    layout.title_justify = layout.caption_justify = "left"
    show_table(console, tables.evidence_table(test_result), layout)


def show_table(console: Console, table: Table, layout: Grid | None = None) -> None:
    """Cells are text: nothing in them is taken for markup."""
    layout = layout or Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for label in table.labels:
        side: JustifyMethod = "right" if table.kind(label) == "number" else "left"
        whole = label in (*table.names, "outcome")
        layout.add_column(label, justify=side, no_wrap=whole, overflow="fold")
    for row in table.rows:
        cells = zip(table.labels, row, strict=True)
        layout.add_row(
            *(_styled(cell) if label in _STYLED else Text(cell) for label, cell in cells)
        )
    console.print(layout)


def _styled(cell: str) -> Text:
    text = Text(cell)
    for pattern, style in _STYLES.items():
        text.highlight_regex(pattern, style)
    return text
