"""How rows, memory and tau are dealt out before anything is read."""
