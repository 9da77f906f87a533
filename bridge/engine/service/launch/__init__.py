"""Launches: create or retrieve reports, give out links, open them."""
