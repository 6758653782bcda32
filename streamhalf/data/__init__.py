"""From stored arrays to checked blocks of rows."""
