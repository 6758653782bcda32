"""Statistics, one mergeable reduction per file."""
