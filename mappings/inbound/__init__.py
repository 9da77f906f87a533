"""Inbound definitions: an HL7 message becomes order and patient events."""
