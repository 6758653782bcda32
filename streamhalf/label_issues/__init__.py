"""Label issues: scores, counts, reviews."""
