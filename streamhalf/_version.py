"""The version, as the installed distribution says it."""

from importlib.metadata import version

__version__ = version("streamhalf")
