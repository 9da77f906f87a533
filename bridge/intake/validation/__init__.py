"""Messages held against HL7's structures and against message profiles, with hl7apy."""
