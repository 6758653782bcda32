"""Programs of one file each; the shell scripts of the same names set up what they need."""
