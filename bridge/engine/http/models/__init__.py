"""Shapes of the requests and responses, in the spelling of the interface reference."""
