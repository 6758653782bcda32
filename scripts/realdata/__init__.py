"""The parts of `scripts/real_data`."""
