"""A tester-learner for halfspaces that runs out of core on Dask.

Importing it imports next to nothing: names are declared in `__init__.pyi` and imported on first
use.
"""

import gc

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.remove("HalfspaceTesterLearner")  # `import *` must not need scikit-learn


def __getattr__(name: str) -> object:
    """Import a name at its first use; the garbage collector, of no use there, would take a tenth longer."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _load(name)
    finally:
        if collecting:
            gc.enable()


def load_ipython_extension(shell: object) -> None:
    """Entry point of `%load_ext streamhalf`: results show themselves as HTML."""
    from streamhalf.report.notebook import enable

    enable()
