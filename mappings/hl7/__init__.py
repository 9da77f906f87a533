"""HL7 v2 messages: parsing, paths, escapes, character sets, refusals and acknowledgments."""
