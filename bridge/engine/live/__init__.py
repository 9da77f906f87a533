"""Work on the event loop: database access, batches, scheduled releases, event streams."""
