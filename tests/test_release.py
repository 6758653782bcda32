"""Version, changelog and what a release script makes of them."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

import streamhalf
from scripts.programs.release import current_version, set_version

ROOT = Path(__file__).parents[1]
FILES = ("CHANGELOG.md", "pyproject.toml", "CITATION.cff")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_version__is_one_everywhere() -> None:
    version = current_version()
    assert streamhalf.__version__ == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == version
    assert f"## {version} - " in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_release__turns_what_is_unreleased_into_a_version(copy: Path) -> None:
    log = copy / "CHANGELOG.md"
    log.write_text(log.read_text("utf-8").replace("## Unreleased\n", "## Unreleased\n\n- news\n", 1))
    set_version(copy, "9.8.7", "2030-01-02")
    assert "## Unreleased\n\n## 9.8.7 - 2030-01-02\n\n- news\n" in log.read_text("utf-8")
    assert current_version(copy) == "9.8.7"
    assert "\nversion: 9.8.7\n" in (copy / "CITATION.cff").read_text("utf-8")
    with pytest.raises(SystemExit, match=r"9\.8\.7 is in CHANGELOG.md already"):
        set_version(copy, "9.8.7", "2030-01-03")


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "1.2.3.dev0"])
def test_release__wants_three_numbers(copy: Path, version: str) -> None:
    with pytest.raises(SystemExit, match="three numbers are wanted"):
        set_version(copy, version, "2030-01-02")


def test_release__needs_something_to_say(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 0.1.0 - 2025-01-01\n")
    with pytest.raises(SystemExit, match="nothing under"):
        set_version(copy, "9.8.7", "2030-01-02")


def test_workflow__tests_every_python_that_is_named() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = [one.rpartition(" ")[2] for one in content["project"]["classifiers"]]
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text("utf-8"))
    tested = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert tested == [one for one in named if one.startswith("3.")]
    assert ".ci/run" in [step.get("run") for step in workflow["jobs"]["test"]["steps"]]


def test_forms__are_well_formed() -> None:
    for form in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")):
        content = yaml.safe_load(form.read_text("utf-8"))
        if form.name != "config.yml":
            assert {"name", "description", "body"} <= set(content)
            assert all(part["type"] in ("markdown", "textarea", "input") for part in content["body"])


def test_pre_commit__runs_the_gates() -> None:
    content = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    hooks = [hook for repo in content["repos"] for hook in repo["hooks"]]
    assert "./scripts/gates" in [hook["entry"] for hook in hooks]
    assert "./scripts/gates\n" in (ROOT / "scripts" / "test").read_text("utf-8")


def test_groups__for_tests_hold_what_extras_promise() -> None:
    content = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    def names(group: str) -> set[str]:
        found: set[str] = set()
        for one in content["dependency-groups"][group]:
            found |= names(one["include-group"]) if isinstance(one, dict) else {one.split(">")[0]}
        return found

    extras = content["project"]["optional-dependencies"]
    wanted = {one.split(">")[0] for extra in extras.values() for one in extra}
    assert wanted - names("dev") == {"aiohttp", "jupyterlab"}  # s3fs brings one; too large
