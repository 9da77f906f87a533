"""Routes for daily work: overview, lists, messages, deliveries, orders, attention, jobs."""
