"""Templates of this package: words that come from outside are escaped wherever the text is HTML."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from streamhalf.redact import plural
from streamhalf.report import codes, notices, rejections, test_results
from streamhalf.testers.constants import FINEST_SCALE

if TYPE_CHECKING:
    from jinja2 import Environment, Template


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # when something is shown

    environment = Environment(
        loader=PackageLoader("streamhalf.report"),
        autoescape=lambda name: name is None or name.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # templates write values with whatever these modules write them with
    environment.filters |= {**vars(codes), **vars(test_results), **vars(notices)}
    environment.filters |= vars(rejections)
    environment.filters |= {"plural": plural, "with_code": _with_code}
    environment.globals |= {
        "COIN": codes.COIN,
        "GOOD": codes.GOOD,
        "FINEST_SCALE": FINEST_SCALE,
    }
    return environment


def template(name: str, **known: Any) -> Template:
    """The template of this name, which knows these values; one that it lacks is an error."""
    return _environment().get_template(name, globals=known)


def macro(file: str, name: str, **known: Any) -> Callable[..., str]:
    """A macro of a template as a function; the template is read when it is first called."""

    def write(*values: Any, **named: Any) -> str:
        return str(getattr(template(file, **known).module, name)(*values, **named))

    return write


def _with_code(text: str) -> Markup:
    """Escaped words, with `options` set as code so that they do not break at a hyphen."""
    short = re.sub("`([^`]{1,40})`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub("`([^`]+)`", r'<code class="command">\1</code>', short))
