"""Routes of the reporting app."""
