"""Messages as files: a folder that is emptied, and a folder that is filled."""
