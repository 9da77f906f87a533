"""Writing and signing: editing, preliminary reads, addenda, checks, releases."""
