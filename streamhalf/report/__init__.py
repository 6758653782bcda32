"""What a person sees: terminal, report, notebook, dashboard."""
