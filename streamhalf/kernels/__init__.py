"""Arrays in, arrays out: NumPy only, no logging, no configuration."""
