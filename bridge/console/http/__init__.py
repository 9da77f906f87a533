"""The console's door: FastAPI lives here and nowhere else in the console."""
