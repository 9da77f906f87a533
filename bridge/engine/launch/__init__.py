"""Launch requests: parsed and checked before anything is stored. No database."""
