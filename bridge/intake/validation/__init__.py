"""Validation of messages against HL7 structures and message profiles, with hl7apy."""
