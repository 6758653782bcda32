"""Explicit constants and bounds that are checked after the fact."""
