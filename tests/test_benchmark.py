"""The benchmarks run end to end, on a few rows; their figures mean nothing here."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from scripts.benchmarking import effort, growth, peers, remote, width
from scripts.benchmarking.command import PARTS, SCHEMA, main
from scripts.benchmarking.stores import Folder
from scripts.benchmarking.tables import Criterion, Table, to_markdown
from scripts.benchmarking.timing import Ratio
from tests.s3_server import require_programs


@pytest.mark.slow
def test_benchmark__every_part_makes_its_table(tmp_path: Path) -> None:
    slow = ("gram", "slab-matrices", "growth", "workers", "width", "effort", "remote")
    quick = [part for part in PARTS if part not in slow]
    small = ["--rows", "200000", "--rounds", "1", "--tasks", "100"]
    main([*small, "--only", *quick, "--out", str(tmp_path), "--stores", str(tmp_path / "stores")])
    document = json.loads((tmp_path / "benchmark.json").read_text("utf-8"))
    assert document["schema"] == SCHEMA
    assert list(document["tables"]) == quick
    for table in document["tables"].values():
        assert table["rows"]
        assert all(len(row) == len(table["header"]) for row in table["rows"])
    verdicts = {row[1] for row in document["tables"]["fits"]["rows"]}
    assert verdicts == {"accepted"}
    assert (tmp_path / "benchmark.png").stat().st_size > 1000


@pytest.mark.slow
def test_effort__tells_the_ratio_and_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "DIMS", (3,))
    monkeypatch.setattr(effort, "EFFORTS", (0.01, 0.1))
    table = effort.measure(Folder(tmp_path), rows=40_000, rounds=1)
    assert [row[1] for row in table.rows] == [0.01, 0.1]
    assert all(row[2] > 1 for row in table.rows)


@pytest.mark.slow
def test_width__measures_fit_and_test_in_bare_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(width, "DIMS", (3, 70))
    table = width.measure(Folder(tmp_path), rows=4_000, rounds=1)
    assert [row[:2] for row in table.rows] == [(3, 4_000), (70, 4_000)]
    assert [one.name for one in table.criteria] == ["test against the fit's passes, d = 70"]


def test_workers__know_the_machines_own_limit() -> None:
    assert growth.time_slabs(threading.Barrier(1), turns=1) > 0


@pytest.mark.slow
def test_remote__moves_each_chunk_once_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_programs()
    monkeypatch.setattr(remote, "LINES", {"S3": {}})
    table = remote.measure(Folder(tmp_path), rows=40_000, rounds=1)
    assert [row[1] for row in table.rows] == ["in memory", "nothing"]
    assert {row[-1] for row in table.rows} == {"yes"}
    found = {one.name: one.value for one in table.criteria}
    assert found["S3, in memory kept: moved"] < 1.5  # requests carry headers too


@pytest.mark.slow
def test_peers__are_whole_commands_beside_ours(tmp_path: Path) -> None:
    table = peers.measure(Folder(tmp_path), sizes=[20_000], rounds=1)
    errors = {row[1]: row[-1] for row in table.rows}
    assert {"streamhalf fit", "LogisticRegression, in memory", "SGD, one epoch"} <= errors.keys()
    assert errors["streamhalf fit"] < 0.07
    assert errors["bare read"] is None


def test_ratio__is_the_median_of_the_rounds() -> None:
    ratio = Ratio.of([1.0, 8.0, 3.0], [1.0, 2.0, 1.0])
    assert (ratio.low, ratio.median, ratio.high) == (1.0, 3.0, 4.0)


def test_table__says_which_criterion_is_not_met() -> None:
    criteria = [Criterion("speed", 0.5, 0.6, at_most=False), Criterion("time", 0.5, 0.6)]
    text = to_markdown(Table("t", "A table", ("a", "b"), [(1, 2.5)], criteria).to_json())
    assert "speed: 0.5, at least 0.6: NOT MET" in text
    assert "time: 0.5, at most 0.6: met" in text
