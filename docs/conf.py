"""The site: `./scripts/docs` builds it from these pages and from the docstrings."""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import Any

import streamhalf
from streamhalf.cli import COMMANDS, main

project = "streamhalf"
version = release = streamhalf.__version__
copyright = "the streamhalf developers"  # noqa: A001  (the name is Sphinx's)

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
myst_heading_anchors = 4
exclude_patterns = ["*.json"]
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types of other projects: nothing is fetched from them
default_role = "code"
autodoc_mock_imports = ["hypothesis"]  # of streamhalf.testing; pages need no more than its docstrings
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"DataLike": "DataLike", "Observer": "Observer"}
autodoc_default_options = {"exclude-members": "__init__, __new__"}
numpydoc_show_class_members = False
html_theme = "furo"
html_title = f"streamhalf {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # a page opened from a file may not read the others


def _commands() -> str:
    """Every command with its words, flags and example, as `--help` prints them."""
    os.environ["COLUMNS"] = "80"
    parts = []
    for command in COMMANDS:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            main([command.__name__, "--help"])
        text = re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue()).strip()
        parts.append(f"## {command.__name__}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _fill(app: Any, name: str, source: list[str]) -> None:
    """Put what the code says of itself into the pages that ask for it."""
    if name == "commands":
        source[0] += _commands()
    # what a page calls a file of the checkout is a page here
    source[0] = source[0].replace("](../README.md)", "](index.md)")
    source[0] = source[0].replace("](../CONTRIBUTING.md)", "](contributing.md)")


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _fill)
