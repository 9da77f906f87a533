"""`bridge check`: find the mistakes of an installation."""
