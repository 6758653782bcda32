"""Planning and running passes: serially, on threads, on a cluster."""
