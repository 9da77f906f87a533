"""Use cases for stored messages, deliveries and exceptions."""
