"""Retention: delete finished messages and deliveries, by partition and by row."""
