"""Draw the picture of each verdict in docs/guide.md: python scripts/verdict_pictures.py."""

from __future__ import annotations

import tempfile
from importlib.resources import files
from pathlib import Path

import streamhalf
from streamhalf.report.svg import Picture
from streamhalf.report.voices import face_of
from streamhalf.results import FitResult

DOCS = Path(__file__).parents[1] / "docs"
WIDTH = 790

RUNS = {
    "accepted": {"rows": 300_000, "noise": "chow", "rate": 0.05},
    "certified": {"rows": 100_000, "marginal": "uniform", "noise": "random", "rate": 0.02},
    "rejected": {"rows": 100_000, "dim": 10, "marginal": "laplace", "noise": "near", "rate": 0.05},
    "inconclusive": {"rows": 1_000, "dim": 8, "noise": "chow", "rate": 0.1},
}
"""By verdict, data that end in it."""


def main() -> None:
    for verdict, data in RUNS.items():
        result = make(data)
        if result.verdict != verdict:
            raise SystemExit(f"{verdict}: the run was {result.verdict}; choose other data")
        ladder = face_of(result).ladder
        assert ladder is not None
        path = DOCS / f"verdict-{verdict}.svg"
        path.write_text(standalone(ladder), "utf-8")
        print(f"wrote {path.relative_to(DOCS.parent)}")


def make(data: dict[str, object]) -> FitResult:
    """A fit of a data set that is made anew."""
    given = {"dim": 4, "marginal": "gaussian", **data}
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/rows.zarr"
        streamhalf.synth(store, **given)
        return streamhalf.fit(store, seed=3)


def standalone(picture: Picture) -> str:
    """Return a picture as a file of its own, with the colours of a report."""
    drawn = str(picture.draw(WIDTH, "wide"))
    style = files("streamhalf.report").joinpath("templates/style.css").read_text("utf-8")
    kept = style[: style.index("* {")] + "text { font-family: system-ui, sans-serif; }\n"
    kept += "\n".join(line for line in style.splitlines() if line.startswith("svg "))
    opened, rest = drawn.split(">", 1)
    return (
        f'{opened} xmlns="http://www.w3.org/2000/svg"><style>\n{kept}\n</style>'
        f'<rect class="page" width="100%" height="100%" style="fill: var(--page)"/>{rest}\n'
    )


if __name__ == "__main__":
    main()
