"""Synthetic labelled rows: distributions of features, label noise, stores."""
