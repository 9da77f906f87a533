"""Lists of messages, deliveries, orders, attention items and audit events, for console and CLI."""
