"""Draw the pictures of docs: verdicts, a report and the cards of a notebook: python scripts/verdict_pictures.py."""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_breast_cancer

import streamhalf
from streamhalf.report.first_screen import face_of
from streamhalf.report.html import render_report
from streamhalf.report.notebook import audit_html, result_html
from streamhalf.report.svg import Picture

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 790

RUNS: dict[str, dict[str, Any]] = {
    "accepted": {"rows": 300_000, "noise": "chow", "rate": 0.05},
    "certified": {"rows": 100_000, "marginal": "uniform", "noise": "random", "rate": 0.02},
    "rejected": {"rows": 100_000, "dim": 10, "marginal": "laplace", "noise": "near", "rate": 0.05},
    "inconclusive": {"rows": 1_000, "dim": 8, "noise": "chow", "rate": 0.1},
}
"""By verdict, data that end in it."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for verdict, data in RUNS.items():
            store = f"{folder}/{verdict}.zarr"
            streamhalf.synth(store, **{"dim": 4, "marginal": "gaussian", **data})
            result = streamhalf.fit(store, seed=3)
            if result.verdict != verdict:
                raise SystemExit(f"{verdict}: the run was {result.verdict}; choose other data")
            ladder = face_of(result).ladder
            assert ladder is not None
            (DOCS / f"verdict-{verdict}.svg").write_text(standalone(ladder), "utf-8")
    photograph(render_report(customers()), "report.png", "light", height=760)
    photograph(cards(), "notebook.png", "dark", height=800)


def standalone(picture: Picture) -> str:
    """Return a picture as a file of its own, with the colours of a report."""
    drawn = str(picture.draw(WIDTH, "wide"))
    page, svg = (
        files("streamhalf.report").joinpath(f"templates/{name}.css").read_text("utf-8") for name in ("style", "svg")
    )
    kept = page[: page.index("* {")] + "text { font-family: system-ui, sans-serif; }\n" + svg.rstrip()
    opened, rest = drawn.split(">", 1)
    return (
        f'{opened} xmlns="http://www.w3.org/2000/svg"><style>\n{kept}\n</style>'
        f'<rect class="page" width="100%" height="100%" style="fill: var(--page)"/>{rest}\n'
    )


def customers() -> streamhalf.FitResult:
    """Fit the table of docs/tutorial.md, made as there."""
    page = (DOCS / "tutorial.md").read_text("utf-8")
    names: dict[str, Any] = {}
    first = page.split("```python\n")[1].split("```")[0]
    exec(first.replace('pd.DataFrame(columns).to_csv("customers.csv", index=False)', ""), names)
    table = pd.DataFrame(names["columns"])
    return streamhalf.fit((table.drop(columns="answer"), table["answer"]), seed=1)


def cards() -> str:
    """Return a page with the cards of scripts/suspects.ipynb."""
    bunch = load_breast_cancer(as_frame=True)
    labels = pd.Series(np.where(bunch.target == 1, "benign", "malignant"))
    changed = np.random.default_rng(0).choice(len(labels), 28, replace=False)
    labels.iloc[changed] = np.where(labels.iloc[changed] == "benign", "malignant", "benign")
    result = streamhalf.fit((bunch.data, labels), seed=0)
    found = streamhalf.audit((bunch.data, labels), model=result).result
    style = "body{font:14px system-ui,sans-serif;margin:20px;background:#111;color:#eee} a{color:#7ab7f0}"
    shown = "<hr style='opacity:.3;margin:20px 0'>".join((result_html(result), audit_html(found)))
    return f"<!DOCTYPE html><style>{style}</style>{shown}"


def photograph(page: str, name: str, scheme: Any, *, height: int) -> None:
    """Write the first screen of a page."""
    with sync_playwright() as play:
        browser = play.chromium.launch(args=["--no-sandbox"], executable_path=shutil.which("chromium"))
        tab = browser.new_page(viewport={"width": 900, "height": height}, color_scheme=scheme)
        tab.set_content(page)
        tab.screenshot(path=DOCS / name)
        browser.close()


if __name__ == "__main__":
    main()
