"""Every use of random numbers, by name: two uses never share a stream."""

from __future__ import annotations

import enum


class Stream(enum.IntEnum):
    """First stream of each use; those between one and the next belong to it."""

    UPDATES = 1
    """Acceptance in update 0, 1, ... (one stream each)."""

    STEPS = 2**39
    """Acceptance in step 0, 1, ... where the final pass tests it again (one stream each)."""

    SHARES = 2**40
    """Which rows go to which pass."""

    SLAB_SAMPLE = 2**40 + 1
    """Rows behind the second moments of slabs."""

    WEDGE_SAMPLE = 2**40 + 2
    """Rows behind the wedge bound."""

    CERTIFICATE = 2**41
    """Rows behind the certificate (windows of them, in older documents)."""

    CHUNK_ORDER = 2**42
    """In which order chunks are dealt to passes."""

    WINDOW_ORDER = 2**42 + 1
    """In which order windows of rows are dealt to passes."""

    PILOT = 2**42 + 2
    """Windows of rows for a first look."""

    SKETCHES = 2**43
    """Random directions of the moment sketch in pass 0, 1, ... of wide data (one stream each)."""

    RADII = 2**44
    """Distances from the centre in radial position."""

    SIGNS = 2**44 + 1
    """Which rows change to the opposite point in radial position."""

    ROW_SAMPLE = 2**44 + 2
    """Rows that a position is first estimated from, in memory."""

    POSITION_SHARE = 2**44 + 3
    """Windows of rows that a position is estimated from."""

    POOL = 2**45
    """Acceptance on the paths of the pool (one stream each)."""

    FOLDS = 2**45 + 2**20
    """Which rows of few are left out together."""

    SYNTHETIC = int.from_bytes(b"synth", "big") << 8
    """Directions, features and noise of synthetic data (one stream each)."""
