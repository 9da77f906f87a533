"""Inbound definitions: HL7 messages become order events and patient events."""
