"""What features are called, wherever a result is put into words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from streamhalf import records

_NAMES: ContextVar[tuple[str, ...]] = ContextVar("names of the features spoken of", default=())
_POSITION: ContextVar[records.PositionRecord | None] = ContextVar("its position", default=None)


@contextmanager
def speaking_of(subject: object) -> Iterator[None]:
    """While a result is put into words, its features go by their names.

    In any other position than the stored one they are mixtures, and numbered.
    """
    data, position = (getattr(subject, name, None) for name in ("data", "position"))
    if not isinstance(data, records.DataRecord) or not isinstance(position, records.PositionRecord):
        yield  # a part of a result: what is said of the whole goes on
        return
    token = _NAMES.set(data.features if position.kind == records.Position.STORED else ())
    before = _POSITION.set(position)
    try:
        yield
    finally:
        _NAMES.reset(token)
        _POSITION.reset(before)


def feature_name(j: int) -> str:
    """The feature's own name, where those of what is spoken of are known; else its number."""
    names = _NAMES.get()
    return quoted(names[j]) if j < len(names) else f"x{j + 1}"


def quoted(name: str) -> str:
    """A name in marks, unless it is one word and could be no formula."""
    return name if name.isidentifier() else f"“{name}”"


def class_words(
    through: records.Through, certificate: records.CertificateRecord | None = None
) -> str:
    """Which halfspaces a number speaks of: as the run has them, or a certificate of it.

    One whose radial position has a centre of its own is about a point of the boundary.
    """
    if through is not records.Through.CENTRE:
        return "with any threshold" if through is records.Through.ANY else "through the origin"
    known = _POSITION.get()
    own = getattr(certificate, "position", None) or known
    if own is None:
        return "through the centre"
    if own.kind != records.Position.RADIAL:
        return "through the mean of the features"
    moved = known is not None and (own.kind, own.centre) != (known.kind, known.centre)
    return "through the certificate's centre" if moved else "through the estimated centre"
