"""Results: frozen records that go to JSON and come back as data only."""

# ruff: noqa: F403
from streamhalf.results.audit import *
from streamhalf.results.codes import *
from streamhalf.results.parts import *
from streamhalf.results.quality import *
from streamhalf.results.results import *
from streamhalf.results.watch import *
