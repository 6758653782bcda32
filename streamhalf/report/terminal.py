"""Results on a terminal: quality, promise and advice first; the tables with `verbose`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from rich.console import Console, JustifyMethod
from rich.table import Column
from rich.table import Table as Grid
from rich.text import Text

from streamhalf import results
from streamhalf.data.inspection import StoreReport
from streamhalf.redact import plural
from streamhalf.report import details, tables
from streamhalf.report import words as say
from streamhalf.report.first_screen import Face, face_of, has_one_class
from streamhalf.report.tables import Cells, Table
from streamhalf.report.words import ABSENT, Names, about, constant, count, nbytes, number
from streamhalf.testers.leading import leading_rejection

_BESIDE = ("sample", "regression", "certificate")  # Passes that test nothing and take no rows from others
# How verdicts, outcomes and answers look
_STYLES = {
    r"(?i)(\d+ )?(passed|accepted)": "green",
    r"(?i)certified": "cyan",
    r"(?i)(\d+ )?(rejected|impossible)": "bold red",
    r"(?i)(\d+ )?inconclusive": "yellow",
    r"(\d+ )?((extra, )?not judged|noticed|began anew)": "dim",
    "yes": "green",
    "NO": "bold red",
}
_STYLED = ("outcome", "outcomes", "holds")
_TONES = {"good": "bold green", "bad": "bold yellow", "open": "bold yellow"}
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")


def show_test(console: Console, result: results.MomentTestResult, verbose: bool = False) -> None:
    names = Names.of(result)
    show_face(console, face_of(result))
    _say(console, *details.test_details(result), style="dim")
    labels = ("tester", "outcome", "statistic", "limit", "chance alone", "rows", *(["remark"] if verbose else []))
    show_table(console, tables.result_table("Testers", result.testers, names, *labels))
    rejected = (one for one in result.testers if one.outcome is results.Outcome.REJECTED)
    for one in rejected if verbose else ():
        show_table(console, tables.evidence_table(one, names), title=True)


def show_classifier(console: Console, result: results.Result, verbose: bool = False) -> None:
    """Print quality, promise and advice of a classifier; with `verbose` also what they rest on."""
    show_face(console, face_of(result))
    if verbose:
        fitted = result if isinstance(result, results.FitResult) else None
        shown = [tables.label_table(result)]
        if fitted is not None:
            _say(console, *details.promise_details(fitted), style="dim")
            shown += [tables.transform_table(fitted), tables.column_table(fitted.data.encoding)]
            shown.append(tables.tester_summary(fitted.testers))
        if result.certificate is not None:
            _say(console, *details.bound_details(result, result.certificate), style="dim")
        shown.append(tables.pass_table(result.passes))
        if (rejection := leading_rejection(result.testers)) is not None:
            shown.append(tables.evidence_table(rejection, Names.of(result)))
        for table in shown:
            if table.rows:
                show_table(console, table, title=True)
    if has_one_class(result):
        return
    more = "" if verbose else "; -v shows testers, labels and passes"
    _say(console, f"seed {tables.seed_words(result)}{more}", style="dim")


def show_columns(console: Console, encoding: results.EncodingRecord) -> None:
    show_table(console, tables.column_table(encoding))


def show_face(console: Console, face: Face) -> None:
    console.print(Text(f"{face.title}: {face.subject}"), overflow="fold")
    if face.tiles:
        layout = Grid(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
        for _ in face.tiles:
            layout.add_column()
        columns = [(tile.name, tile.value, "\n".join(tile.notes)) for tile in face.tiles]
        for style, cells in zip(("dim", "bold", ""), zip(*columns, strict=True), strict=True):
            layout.add_row(*(Text(cell, style) for cell in cells))
        console.print()
        console.print(layout)
    console.print()
    promise, tone = face.promise, _TONES[face.promise.tone]
    console.print(Text.assemble((f"{promise.sign} {promise.title}", tone), f" {promise.words}"))
    if face.measured:
        _say(console, face.measured, style="dim")
    for mark, words in (*(("• ", one) for one in face.caveats), *(("→ ", one) for one in face.advice)):
        console.print(_hanging(mark, words.replace("`", "")))
    if face.command:
        console.print(_hanging("→ ", face.audit))
        console.print(Text(_pasted(face.command, console.width), "cyan"), soft_wrap=True)


def _hanging(mark: str, words: str) -> Grid:
    layout = Grid.grid(Column(no_wrap=True), Column(overflow="fold"))
    layout.add_row(Text(mark, "cyan"), Text(words))
    return layout


def _pasted(command: str, width: int) -> str:
    """Return a command in lines that a shell takes together."""
    if len(command) <= width:
        return command
    lines = [""]
    for part in re.split(r" (?=--)", command):
        if lines[-1] and len(lines[-1]) + len(part) > width - 3:
            lines.append("")
        lines[-1] += part + " "
    return "\\\n".join(lines).rstrip()


def show_panel(console: Console, said: str, title: str) -> None:
    console.print(Text(title.upper(), "bold"))
    console.print(Text(said))


def _say(console: Console, *lines: str, style: str = "") -> None:
    for line in lines:
        console.print(Text(line, style))


def show_verification(console: Console, result: results.VerifyResult) -> None:
    cells: Cells = {
        "claim": lambda one: one.name,
        "holds": lambda one: "yes" if one.holds else "NO",
        "claimed": lambda one: _DIGEST.sub(r"\1…", one.claimed),
        "recomputed": lambda one: _DIGEST.sub(r"\1…", one.recomputed),
    }
    show_table(console, Table.of("Claims", cells, result.claims, words=tuple(cells)))
    failed = sum(not claim.holds for claim in result.claims)
    if not failed:
        _say(console, "every claim holds", style="green")
        return
    _say(console, f"{plural(failed, 'claim')} {'does' if failed == 1 else 'do'} not hold", style="bold red")
    if any(claim.name == results.AS_WRITTEN and not claim.holds for claim in result.claims):
        _say(console, "the document was changed after it was written: its digest does not fit")


def show_plan(console: Console, record: results.PlanRecord) -> None:
    _say(console, *plan_sentences(record))
    show_table(console, _budget_table(record))
    memory = f"{record.memory_nbytes / 2**20:,.0f} MiB"
    sketched = "; degree above 2 is tested on a sketch" if record.sketched else ""
    _say(console, f"tau = {record.tau:g} ({say.TAU}); memory of one task: about {memory}{sketched}")


def plan_sentences(record: results.PlanRecord) -> Iterator[str]:
    """Yield whether so many rows suffice, and what Gaussian ones would support."""
    rare = record.rare_rows_needed
    rows = f"{plural(record.rows, 'row')} of {plural(record.dim, 'feature')}"
    needs = f"{about(record.rows_needed)} rows"
    if rare is not None:
        rows += f", {100 * (record.positive or 0):g}% of them labelled +1,"
        needs += f", {about(rare)} of them of the rarer label"
    eps = f"eps = {number(record.eps)}"
    if record.conclusive:
        yield f"{rows} can judge {eps}." + (f" It takes {needs}." if rare is not None else "")
    elif record.rows_needed > record.rows:
        yield f"{rows} are too few for {eps}: a promise takes {needs}."
        yield "A halfspace, its error and the certificate are there for any number of rows."
        table = "what a run makes of these" if _at_hand(record) else f"for {record.rows_needed:,} rows"
        yield f"The table is {table}."
    else:
        yield f"{rows} can judge {eps} only if half of them are held out: plan with `--reuse`."
    found = [one for one in record.promises if one.constant is not None]
    if found:
        best = next((one for one in reversed(found) if (one.constant or 0) <= 5), found[0])
        words = f"error at most {constant(best.constant)} × the best possible + {number(best.eps)}"
        yield f"Gaussian rows would support: {words} (an empirical worst case)."
    elif rare is not None:
        yield "With a threshold no constant is known here; the certificate needs none."


def _at_hand(record: results.PlanRecord) -> bool:
    """Return whether the plan is for data that were opened."""
    return any(one.n_tasks is not None for one in record.passes)


def _budget_table(record: results.PlanRecord) -> Table:
    """Return what each pass uses, reads and would support, the rows to spare, and all of them together."""
    passes = record.passes
    # rows that others have learned from, or that are held out, are used once more
    again = (*_BESIDE, results.Stage.REFINE, results.Stage.THRESHOLDS)
    rows = sum(one.rows for one in passes if one.name not in again)
    planned = record.rows if record.conclusive or _at_hand(record) else record.rows_needed
    spare = results.PassBudget("spare: for updates that repeat", planned - rows, 0)
    every = results.PassBudget("all", planned, record.nbytes, n_tasks=sum(one.n_tasks or 0 for one in passes))
    repeats = rows < planned and any(one.delta is not None for one in passes)
    known = (one for one in record.promises if one.constant is not None)
    supported = {one.delta: f"{constant(one.constant)} opt + {number(one.eps)}" for one in known}
    untested = (*_BESIDE, spare.name, every.name)
    cells: dict[str, Callable[[Any], str]] = {
        "pass": lambda one: one.name,
        "rows used": lambda one: count(one.rows),
        "read": lambda one: "" if one is spare else nbytes(one.nbytes),
    }
    if _at_hand(record):
        cells["tasks"] = lambda one: "" if one is spare else count(one.n_tasks)
    if record.promises:
        cells["supports, about"] = lambda one: "" if one.name in untested else supported.get(one.delta or 1.0, "")
    return Table.of("Passes", cells, (*passes, *([spare] if repeats else []), every), words=("pass",))


def show_dry_run(console: Console, found: results.DryRunResult) -> None:
    workers, threads = plural(len(found.workers), "worker"), plural(found.n_threads, "thread")
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    _say(
        console,
        f"Dry run on {found.place}: {workers} with {threads} can read {found.source}.",
        "Nothing was learnt and nothing was written.",
        f"Versions: {versions}.",
    )
    cells: Cells = {
        "worker": lambda one: one.address,
        "threads": lambda one: count(one.n_threads),
        "memory for tasks": lambda one: ABSENT if one.memory_nbytes is None else nbytes(one.memory_nbytes),
        "has read": lambda one: f"{count(one.rows_read)} rows, {nbytes(one.bytes_read)}" if one.rows_read else ABSENT,
        "in": lambda one: say.seconds(one.seconds) if one.rows_read else ABSENT,
    }
    show_table(console, Table.of("Workers", cells, found.workers, words=("worker",)))
    for worker, name, there, here in found.differences:
        line = f" worker {worker} has {name} {there}, this process {here}"
        console.print(Text.assemble(("notice:", "yellow"), line), soft_wrap=True)
    show_plan(console, found.plan)
    used, room = (f"{n / 2**20:,.0f} MiB" for n in (found.process_nbytes, found.memory_limit))
    _say(
        console,
        f"{plural(found.n_tasks, 'task')}; a process takes up to {used} and has {room} for tasks.",
        f"At the speed of these reads the passes take about {say.duration(found.seconds)}. The search "
        "for the lower bound comes on top, as do further transforms and shared storage.",
    )


def show_store(console: Console, report: StoreReport) -> None:
    facts = Grid("", Column(overflow="fold"), box=None, show_header=False, pad_edge=False)
    for name, value in _store_facts(report):
        facts.add_row(Text(name, "bold"), Text(value))
    console.print(facts)
    for label, lines, style in (
        ("missing", report.missing, "bold red"),
        ("notice", tuple(map(say.notice_words, report.notices)), "yellow"),
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
        shown = {key: one for key, one in planted.items() if not isinstance(one, bool | list | dict)}
        yield "planted", ", ".join(f"{key} {value}" for key, value in shown.items())


def show_table(console: Console, table: Table, title: bool = False) -> None:
    """Print cells as text: nothing in them is taken for markup."""
    layout = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left")
    if title:
        console.print()
        layout.title = Text(table.caption, "bold")
    for label in table.labels:
        side: JustifyMethod = "right" if table.kind(label) == "number" else "left"
        whole = label in (*table.names, "outcome") or table.kind(label) == "number"
        layout.add_column(label, justify=side, no_wrap=whole)
    for row in table.rows:
        cells = zip(table.labels, row, strict=True)
        layout.add_row(*(_styled(cell) if label in _STYLED else Text(cell) for label, cell in cells))
    console.print(layout)


def _styled(cell: str) -> Text:
    text = Text(cell)
    for pattern, style in _STYLES.items():
        text.highlight_regex(pattern, style)
    return text
