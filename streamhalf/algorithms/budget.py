"""How tau, the probability of a wrong statement, is shared among what a result says."""

from __future__ import annotations

TESTERS = 1 / 2
"""Of a fit: Gaussian rows are not accepted."""

ERROR = 1 / 4
"""Of a fit: the upper bound of the error is below the error on the source, for some candidate."""

BOUND = 1 / 4
"""Of a fit: L of the source is above what some halfspace errs on there."""

CERTIFIED = 1 / 2
"""Of a certificate, which tests nothing: the upper bound, and L of the source, each."""
