"""One order: its messages, report and deliveries, what its state is, and what it waits for."""
