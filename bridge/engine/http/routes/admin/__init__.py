"""Administrative routes."""
