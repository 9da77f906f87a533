"""Outbound definitions: a released report becomes an HL7 message."""
