"""Specs and whole data sets that several tests of the synthetic rows share."""

from __future__ import annotations

import functools
from typing import Any

from streamhalf.data.block import RowRange
from streamhalf.synthetic.distributions import Marginal, Noise
from streamhalf.synthetic.spec import Generated, Planted, SyntheticSpec, generate, plant

RATE = 0.05
SIGMAS = 6  # a statistic beyond six standard errors has probability below 2e-9


def make_spec(marginal: str = "gaussian", noise: str = "none", **changes: Any) -> SyntheticSpec:
    values = {"rows": 40_000, "dim": 3, "rate": 0.0 if noise == "none" else RATE, "seed": 5}
    return SyntheticSpec(marginal=Marginal(marginal), noise=Noise(noise), **(values | changes))


@functools.cache
def whole(spec: SyntheticSpec) -> tuple[Planted, Generated]:
    planted = plant(spec)
    return planted, generate(spec, planted, RowRange(0, spec.rows))
