"""A tester-learner for halfspaces that runs out of core on Dask.

Importing it imports next to nothing: names are declared in `__init__.pyi` and imported on first
use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__.remove("HalfspaceTesterLearner")  # `import *` must not need scikit-learn


def load_ipython_extension(shell: object) -> None:
    """Entry point of `%load_ext streamhalf`: results show themselves as HTML."""
    from streamhalf.report.notebook import enable

    enable()
