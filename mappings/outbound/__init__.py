"""Outbound definitions: a release of a report becomes HL7 segments."""
