"""Messages as files: a listener that empties a folder, and a sender that fills one."""
