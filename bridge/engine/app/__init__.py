"""The report page: its files, and what may be done on it."""
