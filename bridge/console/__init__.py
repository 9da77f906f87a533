"""The admin console: HTTP routes that call `bridge.admin`, and the queries of the dashboard."""
