"""When two results are the same: bit for bit, apart from times and from where the data lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamhalf import FitResult
from streamhalf.results import to_json


def comparable(result: FitResult | Path) -> str:
    """The result as text without `seconds`, what was moved, `digest`, `run` and `data.source`."""
    document = json.loads(result.read_text()) if isinstance(result, Path) else json.loads(json.dumps(to_json(result)))
    return json.dumps(_stripped(document), sort_keys=True)


def _stripped(document: dict[str, Any]) -> dict[str, Any]:
    taken = ("seconds", "bytes_moved", "requests")
    passes = [{k: v for k, v in entry.items() if k not in taken} for entry in document["passes"]]
    data = {k: v for k, v in document["data"].items() if k != "source"}
    rest = {k: v for k, v in document.items() if k not in ("digest", "run")}
    return {**rest, "passes": passes, "data": data}
