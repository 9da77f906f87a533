"""Backups: one file with the databases and the data directory; restore, test copies, comparison."""
