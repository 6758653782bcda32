"""What features are called, wherever a result is put into words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from streamhalf import results

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")

_NAMES: ContextVar[tuple[str, ...]] = ContextVar("names of the features spoken of", default=())
_LABELS: ContextVar[tuple[str, str]] = ContextVar("its labels", default=("-1", "+1"))
_TRANSFORM: ContextVar[results.TransformRecord | None] = ContextVar("its transform", default=None)


@contextmanager
def speaking_of(subject: object) -> Iterator[None]:
    """While a result is put into words, its features and labels go by their own names."""
    data, transform = (getattr(subject, name, None) for name in ("data", "transform"))
    if not isinstance(data, results.DataRecord) or not isinstance(
        transform, results.TransformRecord
    ):
        yield  # a part of a result: what is said of the whole goes on
        return
    token = _NAMES.set(_names_in(data.features, transform))
    before, labels = _TRANSFORM.set(transform), _LABELS.set(data.label_names)
    try:
        yield
    finally:
        _NAMES.reset(token)
        _TRANSFORM.reset(before)
        _LABELS.reset(labels)


def feature_name(j: int) -> str:
    """The feature's own name, where those of what is spoken of are known; else its number."""
    names = _NAMES.get()
    return quoted(names[j]) if j < len(names) and names[j] else numbered(j)


def label_name(label: int) -> str:
    """What -1 or +1 stands for in the data that are spoken of."""
    return _LABELS.get()[label > 0]


def numbered(j: int) -> str:
    """What a feature without a name is called, counted from 1: x₄."""
    return f"x{str(j + 1).translate(_SUBSCRIPTS)}"


def sketch_name(j: int) -> str:
    """What a direction of a sketch is called."""
    return f"u{str(j + 1).translate(_SUBSCRIPTS)}"


def product_name(variables: Sequence[int], name: Callable[[int], str] = feature_name) -> str:
    """A product of features: (2, 2, 6) is x₃²·x₇."""
    powers = {j: variables.count(j) for j in sorted(set(variables))}
    parts = (
        name(j) + (str(power).translate(_SUPERSCRIPTS) if power > 1 else "")
        for j, power in powers.items()
    )
    return "·".join(parts) or "1"


def _names_in(names: tuple[str, ...], transform: results.TransformRecord) -> tuple[str, ...]:
    """Names of features in a transform: of a mixture, that of the column which has most weight.

    That is its own one, unless columns tell nearly the same; such a feature has no name. Where the
    mixture is not on record (a transform that only a sample was looked at in), it is its own one.
    """
    if not names or not transform.whitened or not transform.matrix:
        return names
    matrix = np.abs(np.array(transform.matrix))
    if matrix.shape != (len(names), len(names)):
        return ()
    # in units of the columns: their scales are in the matrix
    weights = matrix / np.maximum(np.linalg.norm(matrix, axis=0), np.finfo(np.float64).tiny)
    own = weights.argmax(axis=1) == np.arange(len(names))
    return tuple(name if mine else "" for name, mine in zip(names, own, strict=True))


def quoted(name: str) -> str:
    """A name in marks, unless it is one word and could be no formula."""
    return name if name.isidentifier() else f"“{name}”"


def class_words(
    through: results.HalfspaceClass, certificate: results.CertificateRecord | None = None
) -> str:
    """Which halfspaces a number speaks of: as the run has them, or a certificate of it."""
    if through is not results.HalfspaceClass.CENTRE:
        return (
            "with any threshold" if through is results.HalfspaceClass.ANY else "through the origin"
        )
    known = _TRANSFORM.get()
    own = getattr(certificate, "transform", None) or known
    if own is None:
        return "through the centre"
    # where all halfspaces are certified, a radial run's certificate is in an affine transform
    same = known is not None and known.centre == own.centre
    kind = known.kind if known is not None and same else own.kind
    radial = kind == results.Transform.RADIAL
    return "through the estimated centre" if radial else "through the mean of the features"
