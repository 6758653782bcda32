"""A tester-learner for halfspaces that runs out of core on Dask."""
