"""Every law over every registered reduction, on chunkings drawn by Hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamhalf.data import opening
from streamhalf.data import source as source_module
from streamhalf.engine import open_engine, plan_pass, run_pass
from streamhalf.events import ignore
from streamhalf.reductions import REDUCTIONS
from tests.laws import DIM, EXAMPLES, LAWS, assert_identical
from tests.strategies import blocks, chunkings, make_block


def test_registry__every_reduction_has_an_example() -> None:
    assert set(EXAMPLES) == set(REDUCTIONS)


def test_registry__names_are_distinct() -> None:
    names = [reduction.name for reduction in EXAMPLES.values()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_reduction__obeys_law(cls, law, data) -> None:
    block = data.draw(blocks(DIM))
    law(EXAMPLES[cls], block, data.draw(chunkings(block.n_rows)))


@pytest.mark.parametrize("cls", REDUCTIONS, ids=lambda cls: cls.__name__)
def test_reduction__dask_equals_serial(cls, monkeypatch) -> None:
    monkeypatch.setattr(source_module, "BLOCK_NBYTES", 1)
    monkeypatch.setattr(opening, "IN_MEMORY_CHUNK_ROWS", 7)
    block = make_block(60, DIM, seed=4)
    source = opening.open_source((block.X, block.y))
    assert len(source.blocks) == 9
    results = []
    for name in ("serial", "threads"):
        with open_engine(name, 2) as engine:
            plan = plan_pass("law", source, EXAMPLES[cls])
            results.append(run_pass(engine, plan, memory_limit=2**30, observer=ignore)[0])
    assert_identical(*results)
