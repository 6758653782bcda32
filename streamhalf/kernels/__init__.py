"""Arrays in, arrays out: NumPy only, no logging, no configuration."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from streamhalf.kernels import loops as loops
else:  # Numba is imported when the first compiled loop is called
    __getattr__, __dir__, _ = lazy_loader.attach(__name__, submodules=["loops"])
