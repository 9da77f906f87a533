"""Search of messages, deliveries and orders, and the content of a found message."""
