"""What a person sees: terminal, report, notebook, dashboard. Nothing here computes statistics."""
