"""From stored message to calls of the report service: plan, link, launch."""
