"""The engine over HTTP: routers of short routes, problem bodies, authentication."""
