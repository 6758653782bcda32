"""The parts of `scripts/evaluate`."""
