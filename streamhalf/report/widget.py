"""A button in a notebook: JupyterLab, Jupyter Notebook and VS Code, by anywidget."""

from __future__ import annotations

import threading
from typing import Any

_SCRIPT = """
function render({ model, el }) {
  const button = document.createElement("button");
  button.type = "button";
  button.style.cssText =
    "font:inherit;color:inherit;background:none;border:1px solid currentColor;" +
    "border-radius:4px;padding:2px 12px;margin:4px 0;cursor:pointer";
  const draw = () => {
    button.disabled = model.get("pressed");
    button.textContent = button.disabled ? "cancelling ..." : "Cancel the run";
    button.style.opacity = button.disabled ? 0.6 : 1;
  };
  button.addEventListener("click", () => {
    model.set("pressed", true);
    model.save_changes();
  });
  model.on("change:pressed", draw);
  draw();
  el.append(button);
}
export default { render };
"""


class CancelButton:
    """A button that is there while a run goes on; without anywidget there is none."""

    def __init__(self) -> None:
        self._pressed = threading.Event()
        self._handle: Any = None
        self._widget: Any = None

    @property
    def pressed(self) -> bool:
        """Whether somebody wants the run to end."""
        return self._pressed.is_set()

    def show(self) -> None:
        """Put the button into the output of this cell."""
        try:
            from anywidget import AnyWidget
            from traitlets import Bool
        except ImportError:
            return
        from IPython.display import display

        pressed = Bool(False).tag(sync=True)
        kind = type("CancelWidget", (AnyWidget,), {"_esm": _SCRIPT, "pressed": pressed})
        self._widget = kind()
        self._widget.observe(lambda change: self._pressed.set(), "pressed")
        view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        # what shows no widgets shows nothing
        bundle = {"application/vnd.jupyter.widget-view+json": view, **_NOTHING}
        self._handle = display(bundle, raw=True, display_id=True)

    def hide(self) -> None:
        """Take it away: the run is over."""
        if self._handle is not None:
            self._handle.update(_NOTHING, raw=True)
            self._widget.close()
            self._handle = self._widget = None


_NOTHING = {"text/plain": "", "text/html": ""}
