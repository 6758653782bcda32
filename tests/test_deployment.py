"""Deployment files: what they name is there, and what they run does run on this machine."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
import urllib.request
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
import yaml
from distributed import Client
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import streamhalf
from tests.clusters import Cluster
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("object-storage", "report", "notebook", "sklearn")


def load_script(name: str) -> Any:
    loader = SourceFileLoader(name, str(ROOT / "scripts" / name))
    module = module_from_spec(spec_from_loader(name, loader))  # type: ignore[arg-type]
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def manifests() -> dict[str, Any]:
    """Objects of a Kubernetes cluster, by kind and name."""
    text = (ROOT / "configs" / "deploy" / "kubernetes.yaml").read_text()
    return {f"{one['kind']} {one['metadata']['name']}": one for one in yaml.safe_load_all(text)}


def container(name: str) -> Any:
    (found,) = manifests()[name]["spec"]["template"]["spec"]["containers"]
    return found


def test_dockerfile__copies_what_is_there_and_installs_known_extras() -> None:
    script = load_script("check_image")
    found = script.instructions((ROOT / "Dockerfile").read_text())
    copied = [source for name, rest in found if name == "COPY" for source in rest.split()[:-1]]
    assert {"pyproject.toml", "streamhalf"} <= set(copied)
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for source in copied:
        assert (ROOT / source).exists()
        assert f"!{source}" in kept
    (installed,) = (rest for name, rest in found if name == "RUN" and "pip install" in rest)
    assert tuple(re.findall(r"\[(.*)\]", installed)[0].split(",")) == EXTRAS
    assert set(EXTRAS) <= set(PROJECT["optional-dependencies"])


def test_environment__holds_what_the_project_asks_for() -> None:
    content = yaml.safe_load((ROOT / "configs" / "deploy" / "environment.yaml").read_text())
    *wanted, _, pip = content["dependencies"]
    assert pip["pip"] == [f"../..[{','.join(EXTRAS)}]"]
    renamed = {"dask-core": "dask"}  # without what streamhalf does not use
    listed = [Requirement(one) for one in wanted if not one.startswith("python=")]
    named = {canonicalize_name(renamed.get(one.name, one.name)): one for one in listed}
    asked = [Requirement(one) for one in PROJECT["dependencies"]]
    asked += [Requirement(one) for x in EXTRAS for one in PROJECT["optional-dependencies"][x]]
    specifiers = {canonicalize_name(one.name): one.specifier for one in asked}
    assert {name: one.specifier for name, one in named.items()} == {name: specifiers[name] for name in named}
    pins = dict(line.split("==") for line in (ROOT / "scripts" / "constraints.txt").read_text().split())
    known = {canonicalize_name(name): version for name, version in pins.items()}
    assert set(named) - set(known) <= {"jupyterlab", "scikit-learn"}  # tests do without them
    for name in set(named) & set(known):  # the versions that tests run with are allowed
        assert known[name] in named[name].specifier


def test_manifests__fit_together() -> None:
    found = manifests()
    service = found["Service fit-scheduler"]
    labels = found["Deployment fit-scheduler"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels
    for one in found.values():
        if one["kind"] == "Deployment":
            spec = one["spec"]
            assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    images = {container(name)["image"] for name in found if not name.startswith("Service")}
    assert len(images) == 1
    worker = container("Deployment fit-worker")
    assert worker["resources"]["limits"]["memory"] == "5Gi"  # above that of the nanny
    assert worker["args"][worker["args"].index("--memory-limit") + 1] == "4GiB"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_manifests__commands_run_here(tmp_path: Path) -> None:
    """The commands of the pods, with this machine's addresses and folders for those of a cluster.

    The scheduler of the manifest has page and metrics before any run.
    """
    cluster = Cluster(tmp_path)
    bucket = tmp_path / "bucket"
    spec: dict[str, Any] = {"rows": 20_000, "dim": 2, "marginal": "gaussian", "noise": "none"}
    streamhalf.synth(bucket / "rows.zarr", scheduler="serial", **spec)
    try:
        _, kind, *options = container("Deployment fit-scheduler")["args"]
        ports = {"8786": "0", ":8787": "127.0.0.1:0"}
        assert (kind, options[0]) == ("scheduler", "--port")
        cluster.start_scheduler(*(ports.get(one, one) for one in options), bare=True)
        _, kind, address, *options = container("Deployment fit-worker")["args"]
        assert (kind, address) == ("worker", "tcp://fit-scheduler:8786")
        cluster.add_worker(*options, bare=True)
        (script,) = container("Job fit")["args"]
        script = script.replace(address, cluster.address).replace("s3://bucket", str(bucket))
        folder = os.path.dirname(sys.executable)
        done = subprocess.run(
            [*container("Job fit")["command"], script],
            env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        assert streamhalf.read_result(bucket / "result.json").data.rows == 20_000
        with Client(cluster.address, set_as_default=False) as client:
            root = client.dashboard_link.removesuffix("/status")
        metrics = read(f"{root}/metrics")
        assert "\nstreamhalf_runs_total{verdict=" in metrics
        assert "\nstreamhalf_runs_under_way 0.0" in metrics
        rows = re.search(r"^streamhalf_rows_total (\S+)$", metrics, re.MULTILINE)
        passes = re.search(r"^streamhalf_passes_total (\S+)$", metrics, re.MULTILINE)
        recorded = streamhalf.read_result(bucket / "result.json").passes
        assert rows is not None
        assert passes is not None
        assert float(rows[1]) == sum(one.rows_read for one in recorded)
        assert float(passes[1]) == len(recorded)
        assert "dask_scheduler_workers" in metrics  # Dask's own stay
    finally:
        cluster.close()


def read(url: str) -> str:
    with urllib.request.urlopen(url) as answer:
        text: str = answer.read().decode()
    return text


@pytest.mark.slow
def test_slurm_job__starts_its_workers_by_srun(tmp_path: Path) -> None:
    """With a stand-in for srun that does what srun does here: run a command once per task."""
    programs = tmp_path / "bin"
    programs.mkdir()
    srun = programs / "srun"
    srun.write_text('#!/bin/sh\nfor i in $(seq "$SLURM_NTASKS"); do "$@" & done\nwait\n')
    srun.chmod(0o755)
    store, result = tmp_path / "rows.zarr", tmp_path / "result.json"
    spec: dict[str, Any] = {"rows": 2_000, "dim": 2, "marginal": "gaussian", "noise": "none"}
    streamhalf.synth(store, scheduler="serial", **spec)
    settings = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "SLURM_NTASKS": "1",
        "SLURM_SUBMIT_DIR": str(ROOT),
        "STREAMHALF_PYTHON": sys.executable,
        "STREAMHALF_SHARED": str(tmp_path),
        "WORKER_MEMORY": "1GiB",
    }
    text = (ROOT / "scripts" / "slurm_job").read_text()
    submitted = tmp_path / "slurm_script"  # sbatch runs a copy
    submitted.write_text(text)
    options = dict(
        shlex.split(line)[1].split("=", 1)[0:2]
        for line in text.splitlines()
        if line.startswith("#SBATCH") and "=" in line
    )
    assert options["--cpus-per-task"] == "1"
    done = subprocess.run(
        ["bash", str(submitted), str(store), str(result), "--quiet", "--certificate-degree", "0"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode in (0, 11), done.stderr
    assert streamhalf.read_result(result).data.rows == 2_000
    assert not list(tmp_path.glob("tmp.*"))
