"""The audit trail: events, the hash chain, and the outbox that leads to it."""
