"""Views of results: terminal, report, notebook, dashboard. Nothing here computes statistics."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
