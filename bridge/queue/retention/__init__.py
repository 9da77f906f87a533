"""Retention: delete finished messages and deliveries, by partitions and by rows."""
