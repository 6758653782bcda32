"""The parts of `scripts/attacks`."""
