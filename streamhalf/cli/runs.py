"""`test`, `plan`, `fit`, `certify` and `verify`: commands that judge, learn and prove."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, TypeVar

from rich.console import Console

from streamhalf import api
from streamhalf.cli.options import (
    ResultConsole,
    add_certificate,
    add_command,
    add_config,
    add_engine,
    add_json,
    add_learning,
    add_memory,
    add_names,
    add_parameter,
    add_storage,
    add_testing,
    check_writable,
    given,
    naming,
    observe,
    read_config,
    whole,
)
from streamhalf.cli.reports import add_report, show_with_report
from streamhalf.documents import read_result, read_weights, write_json
from streamhalf.errors import UsageError
from streamhalf.names import public_name
from streamhalf.report.terminal import (
    show_certificate,
    show_fit,
    show_plan,
    show_test,
    show_verification,
)
from streamhalf.report.words import TAU

T = TypeVar("T")


def add_test(commands: Any) -> None:
    """`streamhalf test`."""
    parser = add_command(
        commands,
        "test",
        run_test,
        "Test whether the features look like N(0, I) up to moments of degree k.",
        "streamhalf test data.zarr --tau 0.01 --json result.json",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    add_testing(parser)
    _add_common(parser)


def add_plan(commands: Any) -> None:
    """`streamhalf plan`."""
    parser = add_command(
        commands,
        "plan",
        run_plan,
        "Say which eps a number of rows can judge, or how many rows an eps needs.",
        "streamhalf plan --dim 10 --rows 1000000",
    )
    parser.add_argument("--dim", type=whole, required=True, metavar="D", help="features")
    parser.add_argument("--rows", type=whole, dest="n_rows", metavar="N", help="rows at hand")
    parser.add_argument("--reuse", action="store_true", help="all rows in every pass")
    add_testing(parser)
    add_learning(parser)
    add_config(parser)
    add_json(parser)


def add_fit(commands: Any) -> None:
    """`streamhalf fit`."""
    parser = add_command(
        commands,
        "fit",
        run_fit,
        "Learn a halfspace with error O(opt) + eps, or say why that cannot be trusted.",
        "streamhalf fit data.zarr --json result.json",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    add_testing(parser)
    add_learning(parser)
    add_parameter(parser, "rows", "how passes share the rows")
    add_certificate(parser, "even degree of the certificate's slab moments, 0 for none")
    parser.add_argument(
        "--checkpoint", metavar="FOLDER", help="path or URL that takes the result of every pass"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from what the checkpoint folder holds"
    )
    parser.add_argument(
        "--max-ratio", type=float, metavar="R", help="accept only with a certified U/L up to R"
    )
    add_report(parser)
    _add_common(parser)


def add_certify(commands: Any) -> None:
    """`streamhalf certify`."""
    parser = add_command(
        commands,
        "certify",
        run_certify,
        "Certify a linear classifier: its error, and a bound that no halfspace can beat.",
        "streamhalf certify data.zarr --weights weights.npy --json certificate.json",
    )
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    parser.add_argument(
        "--weights",
        required=True,
        metavar="FILE",
        help=".npy vector, JSON list or object with normal and offset, or a result file",
    )
    add_parameter(parser, "tau", TAU, float)
    add_parameter(parser, "whiten", "estimate mean and covariance, bound on whitened rows", bool)
    add_certificate(parser, "even degree of the slab moments")
    add_report(parser)
    _add_common(parser)


def add_verify(commands: Any) -> None:
    """`streamhalf verify`."""
    parser = add_command(
        commands,
        "verify",
        run_verify,
        "Recompute the claims of a result file from the data; exit code 12 if one fails.",
        "streamhalf verify result.json data.zarr",
    )
    parser.add_argument("document", metavar="CERTIFICATE", help="what fit or certify wrote")
    parser.add_argument("store", metavar="STORE", help="path or URL of a Zarr store")
    parser.add_argument(
        "--block-rows", type=whole, metavar="N", help="read in other pieces than the stored chunks"
    )
    _add_common(parser)


def _add_common(parser: argparse.ArgumentParser) -> None:
    for add in (add_names, add_memory, add_engine, add_storage, add_config, add_json):
        add(parser)


def _finish(path: str | None, record: T, show: Callable[[Console, T], None]) -> None:
    """Write the record, then show it: neither a full disk nor a closed pipe loses the other."""
    try:
        if path:
            write_json(path, record)
    finally:
        show(ResultConsole(), record)


def run_test(options: argparse.Namespace) -> int:
    """The moment test."""
    path = getattr(options, "json", None)
    check_writable(path)
    config = read_config(options)
    with observe(options) as observer:
        result = api.test(
            options.store,
            storage_options=config.storage_options,
            observer=observer,
            **config.parameters,
        )
    _finish(path, result, show_test)
    return result.verdict.exit_code


def run_plan(options: argparse.Namespace) -> int:
    """The planner."""
    path = getattr(options, "json", None)
    check_writable(path)
    config = read_config(options)
    record = api.plan(
        dim=options.dim,
        n_rows=getattr(options, "n_rows", None),
        **(dict(config.parameters) | ({"rows": "reuse"} if hasattr(options, "reuse") else {})),
    )
    _finish(path, record, show_plan)
    return 0 if record.conclusive else 11


def run_fit(options: argparse.Namespace) -> int:
    """The tester-learner."""
    path = getattr(options, "json", None)
    check_writable(path)
    check_writable(getattr(options, "report", None), "report")
    config = read_config(options)
    with observe(options) as observer:
        result = api.fit(
            options.store,
            storage_options=config.storage_options,
            observer=observer,
            **given(options, "checkpoint", "resume"),
            **config.parameters,
        )
    _finish(path, result, show_with_report(options, show_fit))
    return result.verdict.exit_code


def run_certify(options: argparse.Namespace) -> int:
    """The certificate of somebody's classifier."""
    path = getattr(options, "json", None)
    check_writable(path)
    check_writable(getattr(options, "report", None), "report")
    config = read_config(options)
    weights = read_weights(options.weights)
    with naming("weights", options.weights), observe(options) as observer:
        result = api.certify(
            options.store,
            weights=weights,
            storage_options=config.storage_options,
            observer=observer,
            **config.parameters,
        )
    _finish(path, result, show_with_report(options, show_certificate))
    return 0


def run_verify(options: argparse.Namespace) -> int:
    """The check of a result file."""
    path = getattr(options, "json", None)
    check_writable(path)
    config = read_config(options)
    _check_order(options.document, options.store)
    document = read_result(options.document)
    with naming("document", options.document), observe(options) as observer:
        result = api.verify(
            document,
            options.store,
            block_rows=getattr(options, "block_rows", None),
            storage_options=config.storage_options,
            observer=observer,
            **config.parameters,
        )
    _finish(path, result, show_verification)
    return 0 if result.holds else 12


def _check_order(document: str, store: str) -> None:
    """Refuse a store in the place of the result file."""
    if "://" in document or os.path.isdir(document):
        right = (store, document) if os.path.isfile(store) else ("RESULT", "STORE")
        raise UsageError(
            f"verify: {public_name(document)} is no result file but a store; the result file comes "
            f"first: streamhalf verify {public_name(right[0])} {public_name(right[1])}"
        )


COMMANDS = (add_test, add_plan, add_fit, add_certify, add_verify)
