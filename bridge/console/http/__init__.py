"""The console's HTTP endpoints: FastAPI routes, request bodies, and the HTML page of the app."""
