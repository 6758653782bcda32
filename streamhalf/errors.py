"""Every error a user can meet: each names the field, the value, the limit and the remedy."""

from __future__ import annotations


class StreamhalfError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 1


class UsageError(StreamhalfError):
    """A parameter, flag or configuration value is wrong; nothing was read or written."""

    exit_code = 2


class MemoryBudgetError(UsageError):
    """A pass would need more memory than the budget allows; raised before any work starts."""


class DataError(StreamhalfError):
    """The data are not what they should be: damaged, incomplete, of another shape or kind."""

    exit_code = 3


class ListingError(DataError):
    """A folder, glob or bucket cannot be listed."""


class TransformError(DataError):
    """The rows have no such transform: some features stand still, or tell what others tell.

    `features` are those to look at, numbered from 0; `constant` says that they stand still.
    """

    def __init__(self, message: str, features: tuple[int, ...] = (), *, constant: bool = False) -> None:
        super().__init__(message)
        self.features, self.constant = features, constant


class NotAcceptedError(UsageError):
    """A run that ended early is asked for its halfspace, and has none."""


class UnverifiedWarning(UserWarning):
    """The halfspace of a run that was neither accepted nor certified is used."""


class RunCancelledError(StreamhalfError):
    """A run in the background was cancelled."""

    exit_code = 130


class TargetError(DataError, ValueError):
    """The labels are not two classes; a ValueError too, as scikit-learn's tools expect."""
