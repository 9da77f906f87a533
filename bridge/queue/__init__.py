"""The durable queue: inbox, outbox, lanes, claims and retention."""
