"""Background jobs: bulk actions, exports and deep searches, run in slices for console and CLI."""
