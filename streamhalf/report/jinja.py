"""Templates of this package: words that come from outside are escaped wherever the text is HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from streamhalf.names import plural
from streamhalf.report import codes, rejections
from streamhalf.report.svg import draw

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def template(name: str) -> Template:
    """The template of this name; a value that it lacks is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # when something is shown

    environment = Environment(
        loader=PackageLoader("streamhalf.report"),
        autoescape=name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["coin"] = codes.COIN
    for write in (*codes.FILTERS, *rejections.FILTERS, draw, plural, with_code):
        environment.filters[write.__name__] = write
    return environment.get_template(name)


def macro(file: str, name: str) -> Callable[..., str]:
    """A macro of a template as a function; the template is read when it is first called."""

    def write(*values: Any, **named: Any) -> str:
        return str(getattr(template(file).module, name)(*values, **named))

    return write


def with_code(text: str) -> Markup:
    """Escaped words, with `options` set as code so that they do not break at a hyphen."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))
