"""Search of messages, deliveries and orders by number, state, site and time."""
