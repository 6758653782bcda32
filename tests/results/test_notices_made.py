"""Every kind of notice is made somewhere in the package: none is only read and worded."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

import streamhalf
from streamhalf.results import Notice, Remark

SOURCES = [
    path.read_text()
    for path in Path(streamhalf.__file__).parent.rglob("*.py")
    if path.parts[-2:] not in {("report", "notices.py"), ("records", "notices.py")}
]


KINDS = [kind for kind in get_args(Notice) if kind is not Remark]  # of older documents


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_notice__is_made_somewhere(kind: type) -> None:
    assert any(f"{kind.__name__}(" in text for text in SOURCES)
