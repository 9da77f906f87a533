"""Use cases of the report engine: one action of one actor, in the caller's transaction."""
