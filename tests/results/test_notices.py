"""Every notice code is made somewhere; tests/report/golden.py has words for each."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamhalf
from streamhalf.results import NoticeCode

MADE = [
    path.read_text()
    for path in Path(streamhalf.__file__).parent.rglob("*.py")
    if path.parts[-2] not in ("report", "results")
]


@pytest.mark.parametrize("code", NoticeCode)
def test_notice__is_made_somewhere(code: NoticeCode) -> None:
    assert any(f"NoticeCode.{code.name}" in text for text in MADE)
