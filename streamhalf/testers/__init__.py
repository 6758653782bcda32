"""Three-outcome tests of the x-marginal, one per file."""
