"""Templates of this package: every word that comes from outside is escaped."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from streamhalf.report.codes import count
from streamhalf.report.svg import draw

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def template(name: str) -> Template:
    """The template of this name; a word that it lacks is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # most runs draw nothing

    environment = Environment(
        loader=PackageLoader("streamhalf.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"code": _with_code, "count": count, "draw": draw}
    return environment.get_template(name)


def _with_code(text: str) -> Markup:
    """Escaped words, with `options` set as code so that they do not break at a hyphen."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))
