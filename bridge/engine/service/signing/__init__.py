"""Writing and signing: page actions, preliminary reads, addenda, checks, releases."""
