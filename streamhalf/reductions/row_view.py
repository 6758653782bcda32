"""Which rows a statistic sees, and how: sampled, transformed, accepted, in that order.

A pass is a tree of statistics and views. It is evaluated piece by piece of a block: every number is
drawn once, every row transformed once for all statistics that want it, and all frames look at a row
in one loop.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamhalf.data.block import Block
from streamhalf.data.transforms import Identity
from streamhalf.kernels.plane import Frame, FrameSet, Plane
from streamhalf.kernels.streams import draw_rows, turns_at
from streamhalf.reductions.base import Reduction

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
PIECE_NBYTES = 4 << 20  # Features, in float64, of the rows of one piece: what is made of them stays in cache
_WAITING_NBYTES = 1 << 20  # Rows wait for a statistic until they are so many bytes, and several times its partial
# A frame whose sample is no smaller than this part of another looks at that one: to take half of the rows out costs
# more than to look at all of them
_NEARLY = 0.45


@dataclass(frozen=True, slots=True)
class Sample:
    """The rows whose uniform number of (seed, stream) lies in [low, high).

    Disjoint intervals hold disjoint rows, each a fair sample of the data however rows are ordered.
    What is left of a number, (u - low) / (high - low), is uniform again: a sample of a sample and
    the acceptance of a frame use that instead of a number of their own.
    """

    seed: int
    stream: int
    low: float = 0.0
    high: float = 1.0

    def part(self, low: float, high: float) -> Sample:
        """The rows for which what is left of the number lies in [low, high)."""
        width = self.high - self.low
        return Sample(self.seed, self.stream, self.low + low * width, self.low + high * width)


class BlockTransform(Protocol):
    """Changes rows one by one, keeps their numbers and mutates nothing."""

    def apply(self, block: Block) -> Block: ...


@dataclass(frozen=True, slots=True)
class Widened:
    """Rows in float64: what is certified must not rest on transformed rows in float32."""

    def apply(self, block: Block) -> Block:
        return Block(block.X.astype(np.float64, copy=False), block.y, block.rows)


@dataclass(frozen=True, slots=True)
class StoredSigns:
    """Rows of the radial transform with the signs that they have in the store.

    Drawn signs would hide that labels, or the sides of rows, come in an order.
    """

    seed: int

    def apply(self, block: Block) -> Block:
        """Negate once more what was negated, features and label; rows at the centre were not."""
        turns = turns_at(self.seed, block.rows) & block.X.any(axis=1)
        X = np.where(turns[:, None], -block.X, block.X)
        return Block(X, np.where(turns, -block.y, block.y), block.rows)


@dataclass(frozen=True, slots=True, eq=False)
class MarginBand:
    """Accepts the rows within `reach` of a plane, its normal of length 1, and leaves them as is."""

    plane: Plane
    reach: float


@dataclass(frozen=True, slots=True, eq=False)
class RowView:
    """The rows of a sample, transformed, of which some are accepted; by default all rows as they are.

    A frame draws numbers from the sample, and accepted rows are as it shows them; those in a band
    about a plane stay as they are.
    """

    sample: Sample | None = None
    transforms: tuple[BlockTransform, ...] = ()
    accept: Frame | MarginBand | None = None

    def __post_init__(self) -> None:
        if isinstance(self.accept, Frame) and self.sample is None:
            raise ValueError("view: a frame draws numbers; give the sample that they belong to")

    @property
    def is_all(self) -> bool:
        return self.sample is None and not self.transforms and self.accept is None

    def then(self, inner: RowView) -> RowView:
        """The view of this view."""
        if self.accept is not None and not inner.is_all:
            raise ValueError("view: rows that were accepted are neither sampled nor transformed")
        sample = inner.sample or self.sample
        if self.sample is not None and inner.sample is not None:
            sample = self.sample.part(inner.sample.low, inner.sample.high)
        return RowView(sample, (*self.transforms, *inner.transforms), self.accept or inner.accept)


@dataclass(frozen=True, slots=True, eq=False)
class Accepted:
    """Rows that a frame saw and accepted (int64), and a partial or result of the accepted ones."""

    n_seen: int
    n_accepted: int
    inner: Any


@dataclass(frozen=True, slots=True, eq=False)
class Viewed(Reduction[Any, Any]):
    """A reduction over the rows of a view; with a frame, partials and results are in an `Accepted`."""

    inner: Reduction[Any, Any]
    view: RowView

    @property
    def name(self) -> str:
        return f"viewed-{self.inner.name}"

    @property
    def counts(self) -> bool:
        """True if partials are in an `Accepted`."""
        return isinstance(self.view.accept, Frame)

    @property
    def reads_labels(self) -> bool:
        return self.inner.reads_labels

    def empty(self, dim: int) -> Any:
        return Accepted(0, 0, self.inner.empty(dim)) if self.counts else self.inner.empty(dim)

    def map(self, block: Block) -> Any:
        return measure(self, (block,))[1]

    def combine(self, *parts: Any) -> Any:
        if not self.counts:
            return self.inner.combine(*parts)
        inner = self.inner.combine(*(part.inner for part in parts))
        return Accepted(sum(part.n_seen for part in parts), sum(part.n_accepted for part in parts), inner)

    def finalize(self, partial: Any) -> Any:
        if not self.counts:
            return self.inner.finalize(partial)
        return Accepted(partial.n_seen, partial.n_accepted, self.inner.finalize(partial.inner))

    def rows_used(self, partial: Any) -> int:
        return partial.n_accepted if self.counts else self.inner.rows_used(partial)

    def partial_nbytes(self, dim: int) -> int:
        return self.inner.partial_nbytes(dim) + 16


@dataclass(frozen=True, slots=True, eq=False)
class Bundle(Reduction[tuple[Any, ...], tuple[Any, ...]]):
    """Several reductions that share one read of every block; results come in members' order."""

    members: tuple[Reduction[Any, Any], ...]

    @property
    def name(self) -> str:
        return "+".join(member.name for member in self.members)

    @property
    def reads_labels(self) -> bool:
        return any(member.reads_labels for member in self.members)

    def empty(self, dim: int) -> tuple[Any, ...]:
        return tuple(member.empty(dim) for member in self.members)

    def map(self, block: Block) -> tuple[Any, ...]:
        found: tuple[Any, ...] = measure(self, (block,))[1]
        return found

    def combine(self, *parts: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(self.members, zip(*parts, strict=True), strict=True)
        return tuple(member.combine(*same) for member, same in pairs)

    def finalize(self, partial: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(member.finalize(part) for member, part in zip(self.members, partial, strict=True))

    def rows_used(self, partial: tuple[Any, ...]) -> int:
        """The most that any member used."""
        pairs = zip(self.members, partial, strict=True)
        return max((member.rows_used(part) for member, part in pairs), default=0)

    def partial_nbytes(self, dim: int) -> int:
        return sum(member.partial_nbytes(dim) for member in self.members)


def in_space(reduction: Reduction[Any, Any], *transforms: BlockTransform) -> Reduction[Any, Any]:
    """The reduction over transformed rows; the identity changes nothing."""
    changing = tuple(one for one in transforms if not isinstance(one, Identity))
    return Viewed(reduction, RowView(transforms=changing)) if changing else reduction


def sampled(reduction: Reduction[Any, Any], sample: Sample) -> Reduction[Any, Any]:
    """The reduction over a sample of the rows; one of all rows changes nothing."""
    is_all = sample.low <= 0 and sample.high >= 1
    return reduction if is_all else Viewed(reduction, RowView(sample))


@dataclass(slots=True, eq=False)
class _Leaf:
    """A statistic of a pass, its view, and what was found so far; `room` is bytes of rows that wait at most."""

    statistic: Reduction[Any, Any]
    view: RowView
    room: int = 0
    n_seen: int = 0
    n_accepted: int = 0
    waiting: list[Block] = field(default_factory=list)
    nbytes: int = 0
    partial: Any = None

    @property
    def frame(self) -> Frame | None:
        return self.view.accept if isinstance(self.view.accept, Frame) else None

    def take(self, n_seen: int, rows: Block) -> None:
        """Rows of one piece; a large partial is made of many of them."""
        self.n_seen += n_seen
        self.n_accepted += rows.n_rows
        self.nbytes += rows.X.nbytes
        self.waiting.append(rows)
        if not self.room:
            self.room = max(_WAITING_NBYTES, 4 * self.statistic.partial_nbytes(rows.dim))
        if self.view.is_all or self.nbytes >= self.room:
            self.reduce()

    def reduce(self) -> None:
        """Reduce the rows that wait."""
        if self.waiting:
            rows = Block.concatenate(self.waiting)
            self.waiting, self.nbytes = [], 0
            if self.partial is None:
                self.partial = self.statistic.map(rows)
            elif (add_to := getattr(self.statistic, "add_to", None)) is not None:
                self.partial = add_to(self.partial, rows)
            else:
                self.partial = self.statistic.combine(self.partial, self.statistic.map(rows))

    def let_go(self, block: Block) -> None:
        """Reduce rows that lie in the memory of a block, so that the next one can use it."""
        if any(np.may_share_memory(rows.X, block.X) for rows in self.waiting):
            self.reduce()


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """Leaves that look at the rows below `top` of those drawn, and the frames among them, with their own tops."""

    top: float
    plain: tuple[_Leaf, ...]
    framed: tuple[tuple[Frame, float, tuple[_Leaf, ...]], ...]
    frames: FrameSet | None

    @classmethod
    def of(cls, top: float, due: Sequence[tuple[_Leaf, float]]) -> _Look:
        framed: dict[Frame, tuple[float, list[_Leaf]]] = {}
        for leaf, own in due:
            if leaf.frame is not None:
                framed.setdefault(leaf.frame, (own, []))[1].append(leaf)
        frames = FrameSet.of(list(framed), [own for own, _ in framed.values()]) if framed else None
        plain = tuple(leaf for leaf, _ in due if leaf.frame is None)
        return cls(top, plain, tuple((frame, own, tuple(same)) for frame, (own, same) in framed.items()), frames)

    def at(self, rows: Block, left: NDArray[np.float64]) -> None:
        """Give every leaf its rows."""
        for leaf in self.plain:
            band, inside = leaf.view.accept, rows
            if isinstance(band, MarginBand):
                inside = rows.take(np.flatnonzero(np.abs(band.plane.margins(rows.X)) < band.reach))
            leaf.take(rows.n_rows, inside)
        if self.frames is None:
            return
        accepted = self.frames.find(rows.X, left)
        for (frame, top, same), (places, along) in zip(self.framed, accepted, strict=True):
            n_seen = rows.n_rows if top >= self.top else int(np.count_nonzero(left < top))
            shown = Block(frame.show(rows.X, places, along), rows.y[places], rows.rows[places])
            for leaf in same:
                leaf.take(n_seen, shown)


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """Nested samples of one draw, and what is made of them; each look takes its rows of the one before."""

    sample: Sample | None
    branches: tuple[tuple[tuple[BlockTransform, ...], tuple[_Look, ...]], ...]

    @classmethod
    def of(cls, leaves: Sequence[_Leaf]) -> _Draw:
        samples = [leaf.view.sample for leaf in leaves if leaf.view.sample]
        largest = max(samples, key=lambda one: one.high, default=None)
        branches = _grouped(leaves, lambda leaf: leaf.view.transforms)
        return cls(largest, tuple((transforms, tuple(_looks(same, largest))) for transforms, same in branches.items()))

    def at(self, block: Block) -> None:
        """Draw the rows of one piece, transform them once, and look at them."""
        rows, left = block, np.zeros(0)
        if (one := self.sample) is not None:
            places, left = draw_rows(one.seed, one.stream, rows.rows, low=one.low, high=one.high)
            rows = rows.take(places) if len(places) < rows.n_rows else rows
        for transforms, looks in self.branches:
            some, rest = rows, left
            for i, look in enumerate(looks):
                if look.top < 1:
                    chosen = np.flatnonzero(rest < look.top)
                    some, rest = some.take(chosen), rest[chosen]
                for transform in transforms if i == 0 else ():
                    some = transform.apply(some)
                look.at(some, rest)


def _looks(leaves: Sequence[_Leaf], largest: Sample | None) -> Iterator[_Look]:
    """The samples from the largest on; a frame may look at one that is hardly larger than its own."""
    width = (largest.high - largest.low) if largest else 1.0
    samples = ((leaf, leaf.view.sample) for leaf in leaves)
    rest = [(leaf, 1.0 if one is None else (one.high - one.low) / (width or 1.0)) for leaf, one in samples]
    while rest:
        top = max(own for _, own in rest)
        due = [own == top or (leaf.frame is not None and own > _NEARLY * top) for leaf, own in rest]
        yield _Look.of(top, list(itertools.compress(rest, due)))
        rest = [one for one, now in zip(rest, due, strict=True) if not now]


def measure(reduction: Reduction[Any, Any], blocks: Iterable[Block]) -> tuple[int, Any]:
    """The number of rows of some blocks and their partial, what statistics share computed once."""
    leaves = list(_leaves(reduction, RowView()))
    viewed = [leaf for leaf in leaves if not leaf.view.is_all]
    draws = [_Draw.of(group) for group in _grouped(viewed, _draw_of).values()]
    n_rows = 0
    for block in blocks:
        n_rows += block.n_rows
        for leaf in leaves:
            if leaf.view.is_all:
                leaf.take(block.n_rows, block)
        step = max(1024, PIECE_NBYTES // (8 * block.dim))
        for start in range(0, max(1, block.n_rows), step) if viewed else ():
            for draw in draws:
                draw.at(block.cut(slice(start, start + step)))
        for leaf in viewed:
            leaf.let_go(block)
        del block  # its buffer is used for the next one
    for leaf in viewed:
        leaf.reduce()
    return n_rows, _gathered(reduction, deque(leaves))


def _draw_of(leaf: _Leaf) -> Hashable:
    """Key that nested samples share."""
    one = leaf.view.sample
    return None if one is None else (one.seed, one.stream, one.low)


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _leaves(reduction: Reduction[Any, Any], view: RowView) -> Iterator[_Leaf]:
    """The statistics of a tree, each with the view that all above it make."""
    match reduction:
        case Bundle():
            for member in reduction.members:
                yield from _leaves(member, view)
        case Viewed():
            yield from _leaves(reduction.inner, view.then(reduction.view))
        case _:
            yield _Leaf(reduction, view)


def _gathered(reduction: Reduction[Any, Any], leaves: deque[_Leaf]) -> Any:
    """The partial of a tree, of those of its leaves, each of which knows what its frame saw."""
    match reduction:
        case Bundle():
            return tuple(_gathered(member, leaves) for member in reduction.members)
        case Viewed() if reduction.counts:
            leaf = leaves[0]
            return Accepted(leaf.n_seen, leaf.n_accepted, _gathered(reduction.inner, leaves))
        case Viewed():
            return _gathered(reduction.inner, leaves)
    return leaves.popleft().partial
