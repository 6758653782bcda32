"""Every use of random numbers has streams of its own."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np

import streamhalf
from streamhalf.kernels.streams import Stream
from streamhalf.kernels.uniforms import uniforms_at

MANY = 1 << 32
"""More streams than any use that takes several will ever take."""

SEVERAL = (Stream.UPDATES, Stream.SKETCHES, Stream.SYNTHETIC)


def test_streams__no_two_names_share_a_number() -> None:
    assert len(Stream) == len(Stream.__members__)  # an alias would be a second name for one number
    assert len({int(stream) for stream in Stream}) == len(Stream)


def test_streams__a_use_of_several_has_room_before_the_next() -> None:
    ordered = sorted(Stream)
    for stream, following in itertools.pairwise(ordered):
        assert following - stream >= (MANY if stream in SEVERAL else 1)
    assert all(1 <= stream <= 2**64 - MANY for stream in ordered)  # the key takes 64 bits


def test_streams__numbers_stay_what_they_are() -> None:
    # the same seed must give the same answer in every version, and documents verify by it
    assert {stream.name: int(stream) for stream in Stream} == {
        "UPDATES": 1,
        "STEPS": 2**39,
        "SHARES": 2**40,
        "SLAB_SAMPLE": 2**40 + 1,
        "WEDGE_SAMPLE": 2**40 + 2,
        "CERTIFICATE": 2**41,
        "CHUNK_ORDER": 2**42,
        "WINDOW_ORDER": 2**42 + 1,
        "WINDOW_START": 2**42 + 3,
        "PILOT": 2**42 + 2,
        "SKETCHES": 2**43,
        "RADII": 2**44,
        "SIGNS": 2**44 + 1,
        "CONFLICTS": 2**44 + 2,
        "POSITION_SHARE": 2**44 + 3,
        "BASELINE_SAMPLE": 2**44 + 4,
        "POSITION_SAMPLE": 2**44 + 5,
        "REFINE_SAMPLE": 2**44 + 6,
        "BASELINE_PART": 2**44 + 7,
        "REGRESSION_SHARE": 2**44 + 8,
        "REGRESSION_PART": 2**44 + 9,
        "BASELINES": 2**45,
        "FOLDS": 2**45 + 2**20,
        "REVIEW": 2**45 + 2**20 + 1,
        "CONFLICT_SAMPLE": 2**45 + 2**20 + 2,
        "COMPARED": 2**45 + 2**20 + 3,
        "AUDIT_SAMPLE": 2**45 + 2**20 + 4,
        "SYNTHETIC": 0x73796E7468 << 8,
    }


def test_streams__every_name_has_one_use() -> None:
    """One place in the code for each, but for the one number of a row that deals it to passes."""
    root = Path(streamhalf.__file__).parent
    text = "".join(path.read_text("utf-8") for path in sorted(root.rglob("*.py")))
    uses = Counter(re.findall(r"\bStream\.([A-Z_]+)\b", text))
    assert uses.pop("SHARES") > 1
    assert uses == dict.fromkeys(Stream.__members__.keys() - {"SHARES"}, 1)


def test_streams__draw_different_numbers() -> None:
    # 53-bit uniforms of 15 streams and 50 rows agree somewhere with probability below 1e-11
    rows = np.arange(50)
    drawn = np.concatenate([uniforms_at(0, stream, rows) for stream in Stream])
    assert len(np.unique(drawn)) == len(drawn)
