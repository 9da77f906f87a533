"""The internal report engine: it lives behind HTTP and is imported by the wiring alone."""
