"""Synthetic labelled rows: laws of the features, label noise, and stores filled with both."""
