"""Private interfaces of `distributed`: all that the package uses.

These functions run on the scheduler, and Bokeh is imported there alone.
tests/report/test_distributed_private.py holds what is relied upon, and says what changed upstream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from bokeh.document import Document
    from distributed import Scheduler
    from distributed.diagnostics.plugin import SchedulerPlugin

# Fills the document of one viewer; gets the scheduler and what the dashboard's templates need
Draw: TypeAlias = "Callable[[Scheduler, dict[str, Any], Document], None]"


def logged(scheduler: Scheduler, topic: str) -> list[Any]:
    """The messages of a topic that the scheduler remembers, oldest first."""
    return [message for _, message in scheduler.get_events(topic)]


async def add_plugin(scheduler: Scheduler, plugin: SchedulerPlugin, name: str) -> None:
    """Start a plugin, unless one of this name is at work."""
    await scheduler.register_scheduler_plugin(plugin, name, idempotent=True)


def find_dashboard(scheduler: Scheduler) -> Any:
    """The Bokeh application behind the scheduler's dashboard; LookupError if it has none."""
    from bokeh.server.tornado import BokehTornado

    for application in scheduler.http_application.applications:
        if isinstance(application, BokehTornado):
            return application
    raise LookupError("the scheduler runs without a dashboard")


def serve_pages(scheduler: Scheduler, pages: Mapping[str, Draw], *, menu: str) -> None:
    """Serve pages by path beside those of the dashboard, `menu` as an entry of its menu."""
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    main = find_dashboard(scheduler)
    variables = template_variables(scheduler)
    if menu not in variables["pages"]:
        variables["pages"].append(menu)
    own = BokehApplication(dict(pages), scheduler, prefix=main.prefix, template_variables=variables)
    scheduler.http_application.add_application(own)
    own.initialize(IOLoop.current())
    own.start()
    # individual-plots.json, which the lab extension reads, lists those of the first application
    main._applications.update({path: own._applications[path] for path in pages})


def dress(doc: Document, page: Any, menu: Mapping[str, Any] | None, *, milliseconds: int) -> None:
    """Give a document the dashboard's looks, perhaps its menu, and call `page.update()` again and again."""
    from distributed.dashboard.components import add_periodic_callback
    from distributed.dashboard.components.scheduler import BOKEH_THEME, env

    add_periodic_callback(doc, page, milliseconds)
    doc.theme = BOKEH_THEME
    if menu is not None:
        doc.template = env.get_template("simple.html")
        doc.template_variables.update(menu)
