"""Launches: create or find reports, issue links, and open them."""
