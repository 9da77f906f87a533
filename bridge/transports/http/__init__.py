"""HL7 v2 over HTTP by HAPI's specification: one message per request, in both directions."""
