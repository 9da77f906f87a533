"""The admin console: its HTTP routes and queries. Its use cases are in `bridge.admin`."""
