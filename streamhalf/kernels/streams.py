"""Every use of random numbers, by name: each has streams of its own, and no two uses share one.

`SHARES` is one use in several places: one number for each row says whether it is held out and which learning pass takes
it, and a part of a share is the rows with its smallest numbers. A run that tries several transforms takes the same
streams in each: bounds add up over transforms (a union bound), for which they need not be independent.
"""

from __future__ import annotations

import enum


class Stream(enum.IntEnum):
    """First stream of each use; those between one and the next belong to it."""

    UPDATES = 1
    """Acceptance in update 0, 1, ... (one stream each)."""

    STEPS = 2**39
    """Acceptance in step 0, 1, ... where the final pass tests it again (one stream each)."""

    SHARES = 2**40
    """Which rows are held out, and which go to which learning pass: one number for each row."""

    SLAB_SAMPLE = 2**40 + 1
    """Rows behind the second moments of slabs."""

    WEDGE_SAMPLE = 2**40 + 2
    """Rows behind the wedge bound."""

    CERTIFICATE = 2**41
    """Rows behind the certificate."""

    CHUNK_ORDER = 2**42
    """In which order chunks are dealt to passes."""

    WINDOW_ORDER = 2**42 + 1
    """In which order windows of rows are dealt to passes."""

    WINDOW_START = 2**42 + 3
    """From which window on those of a segment are dealt."""

    PILOT = 2**42 + 2
    """Windows of rows for a first look, of which a command takes one."""

    SKETCHES = 2**43
    """Random directions of the moment sketch in pass 0, 1, ... of wide data (one stream each)."""

    RADII = 2**44
    """Distances from the centre in radial transform."""

    SIGNS = 2**44 + 1
    """Which rows change to the opposite point in radial transform."""

    CONFLICTS = 2**44 + 2
    """Rows that sets in conflict are counted among: none that learning prefers."""

    POSITION_SHARE = 2**44 + 3
    """Windows of rows that a transform is estimated from."""

    BASELINE_SAMPLE = 2**44 + 4
    """Rows that baselines are learnt from, in memory."""

    BASELINE_PART = 2**44 + 7
    """Part of them that is enough where the path is likely to win."""

    POSITION_SAMPLE = 2**44 + 5
    """Rows that a radial transform is first estimated from, in memory."""

    REFINE_SAMPLE = 2**44 + 6
    """Rows next to a plane that refine learns from."""

    REGRESSION_SHARE = 2**44 + 8
    """Windows of rows that a regression of many features takes."""

    REGRESSION_PART = 2**44 + 9
    """Rows of few that choose the penalty of a regression in memory."""

    BASELINES = 2**45
    """Acceptance on the paths of the baselines (one stream each)."""

    FOLDS = 2**45 + 2**20
    """Which rows of few are left out together."""

    REVIEW = 2**45 + 2**20 + 1
    """Which rows of each stratum a review draws."""

    CONFLICT_SAMPLE = 2**45 + 2**20 + 2
    """Rows among which an audit looks for sets in conflict."""

    COMPARED = 2**45 + 2**20 + 3
    """Rows that label issues are compared with, value by value."""

    AUDIT_SAMPLE = 2**45 + 2**20 + 4
    """Order of the rows of a first look of an audit, all of which are taken."""

    SYNTHETIC = int.from_bytes(b"synth", "big") << 8
    """Directions, features and noise of synthetic data (one stream each)."""
