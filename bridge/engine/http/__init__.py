"""The engine over HTTP: application, shared state and pages; below, routes, checks and sign-in."""
