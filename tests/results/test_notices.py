"""Every notice code is made somewhere, and has words that its fields fit."""

from __future__ import annotations

from pathlib import Path

import pytest

import streamhalf
from streamhalf.report.words import notice_words
from streamhalf.results import Notice, NoticeCode

MADE = [
    path.read_text()
    for path in Path(streamhalf.__file__).parent.rglob("*.py")
    if path.parts[-2] not in ("report", "results")
]


@pytest.mark.parametrize("code", NoticeCode)
def test_notice__is_made_somewhere(code: NoticeCode) -> None:
    assert any(f"NoticeCode.{code.name}" in text for text in MADE)


def test_notice__has_words() -> None:
    assert notice_words(Notice.of(NoticeCode.LABELS_ARE_BITS, array="y")) == ("labels y are 0/1; 0 is read as -1.")
