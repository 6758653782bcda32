from __future__ import annotations

import numpy as np

from streamhalf.data.block import Block
from streamhalf.data.transforms import Radial
from streamhalf.reductions.base import Summed
from streamhalf.reductions.mapped import Mapped
from streamhalf.reductions.unturned import Unturned
from streamhalf.testing.drawing import make_block


class Seen(Summed):
    """Not a reduction, but a way to see the block that one would see."""

    name = "seen"

    def map(self, block: Block) -> Block:
        return block


def test_unturned__labels_and_sides_are_the_stored_ones() -> None:
    stored = make_block(500, 3, seed=1)
    X = stored.X.copy()
    X[::5] = [1.0, 2.0, 3.0]
    block = Block(X, stored.y, stored.rows)
    radial = Radial(np.array([1.0, 2.0, 3.0]), np.eye(3), seed=4)
    turned = Mapped(Seen(), radial).map(block)
    seen = Mapped(Unturned(Seen(), seed=4), radial).map(block)
    assert not np.array_equal(turned.y, stored.y)
    np.testing.assert_array_equal(seen.y, stored.y)
    along = np.einsum("ij,ij->i", seen.X, X - radial.centre)
    assert (along[np.arange(500) % 5 > 0] > 0).all()
    np.testing.assert_array_equal(seen.X[::5], 0)
