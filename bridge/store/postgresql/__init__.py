"""PostgreSQL: connections, requirements, locks, notifications and partitions."""
