"""PostgreSQL: connections, requirements, locks, notifications, partitions."""
