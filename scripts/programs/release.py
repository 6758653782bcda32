"""Version and changelog of a release, and what must be in its files."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNRELEASED = "## Unreleased"
VERSION = re.compile(r"\d+\.\d+\.\d+")


def current_version(root: Path = ROOT) -> str:
    """The version of pyproject.toml."""
    content = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return str(content["project"]["version"])


def set_version(root: Path, version: str, date: str) -> None:
    """Write a version and its date into the three files that name them."""
    if not VERSION.fullmatch(version):
        sys.exit(f"version: {version!r} given; three numbers are wanted, such as 0.2.1")
    changelog = (root / "CHANGELOG.md").read_text("utf-8")
    if f"## {version} " in changelog:
        sys.exit(f"version: {version} is in CHANGELOG.md already; choose the next one")
    _, found, section = changelog.partition(UNRELEASED)
    if not found or not section.split("\n## ")[0].strip():
        sys.exit(f"CHANGELOG.md: nothing under {UNRELEASED!r}; say what a user can see")
    released = f"{UNRELEASED}\n\n## {version} - {date}"
    changes = {
        "CHANGELOG.md": (re.escape(UNRELEASED), released),
        "pyproject.toml": (r'(?m)^version = ".*"$', f'version = "{version}"'),
        "CITATION.cff": (r"(?m)^version: .*$", f"version: {version}"),
    }
    for name, (old, new) in changes.items():
        text = (root / name).read_text("utf-8")
        (root / name).write_text(re.sub(old, lambda _, new=new: new, text, count=1), "utf-8")


def check_files(root: Path = ROOT) -> None:
    """Exit unless changelog, citation, archive and wheel are those of the version."""
    version = current_version(root)
    if f"## {version} - " not in (root / "CHANGELOG.md").read_text("utf-8"):
        sys.exit(f"CHANGELOG.md: no section for {version}; ./scripts/release VERSION makes it")
    if f"version: {version}\n" not in (root / "CITATION.cff").read_text("utf-8"):
        sys.exit(f"CITATION.cff: its version is not {version}")
    wheel = root / "dist" / f"streamhalf-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    wanted = {path.relative_to(root).as_posix() for path in _package_files(root)}
    if lacking := sorted(wanted - inside):
        sys.exit(f"{wheel.name}: lacks {', '.join(lacking[:5])}")
    if strange := sorted(name for name in inside if not name.startswith("streamhalf")):
        sys.exit(f"{wheel.name}: holds {', '.join(strange[:5])}")
    with tarfile.open(root / "dist" / f"streamhalf-{version}.tar.gz") as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    if lacking := sorted({"LICENSE", "README.md", "pyproject.toml"} - names):
        sys.exit(f"the source archive lacks {', '.join(lacking)}")
    print(f"streamhalf {version}: {len(inside)} files in the wheel, {len(names)} in the archive")


def _package_files(root: Path) -> list[Path]:
    """All files that the package needs."""
    found = (root / "streamhalf").rglob("*")
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def main() -> None:
    """Entry point of scripts/release."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("step", choices=("prepare", "check", "version"))
    parser.add_argument("version", nargs="?", help="the version to set")
    options = parser.parse_args()
    if options.step == "version":
        print(current_version())
    elif options.step == "check":
        check_files()
    elif options.version:
        set_version(ROOT, options.version, datetime.datetime.now(datetime.UTC).date().isoformat())


if __name__ == "__main__":
    main()
