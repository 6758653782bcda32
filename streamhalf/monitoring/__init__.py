"""Watching: whether new rows still look like those behind a result."""
