"""From stored message to calls of the report engine: read, plan, apply."""
