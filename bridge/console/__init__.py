"""The admin console: HTTP routes that call `bridge.admin`."""
