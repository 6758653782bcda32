"""Versioned stores: a result names its snapshot, and is verified against it."""

from __future__ import annotations

from pathlib import Path

import icechunk
import zarr

import streamhalf
from tests.conftest import make_rows, write_arrays

X, Y = make_rows(2000, 2, seed=3, dtype="float64")


def test_verify__tells_another_snapshot(tmp_path: Path) -> None:
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "ice")))
    session = repository.writable_session("main")
    write_arrays(session.store, X, Y, chunk_rows=500)
    first = session.commit("rows")
    result = streamhalf.fit(repository.readonly_session("main"), seed=1, scheduler="serial")
    assert result.data.snapshot == first

    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="r+")["y"][:] = -Y
    second = session.commit("other labels")
    now = streamhalf.verify(result, repository.readonly_session("main"), scheduler="serial")
    then = streamhalf.verify(result, repository.readonly_session(snapshot_id=first), scheduler="serial")
    assert then.holds
    assert not now.holds
    claims = {one.name: one for one in now.claims}
    assert (claims["snapshot"].claimed, claims["snapshot"].recomputed) == (first, second)

    write_arrays(str(tmp_path / "copy.zarr"), X, Y, chunk_rows=500)
    copied = streamhalf.verify(result, tmp_path / "copy.zarr", scheduler="serial")
    assert copied.holds
    assert "snapshot" not in {one.name for one in copied.claims}
