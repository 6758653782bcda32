"""The paper's four algorithms, and the runs that they are part of."""
