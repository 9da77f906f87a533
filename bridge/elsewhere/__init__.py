"""Work on large messages in a process of its own, so that nobody else waits for it."""
