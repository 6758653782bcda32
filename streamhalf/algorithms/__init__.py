"""The paper's algorithms, one per file."""
