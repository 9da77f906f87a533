"""HL7 v2 over HTTP, as HAPI's specification of it has it: a message a request, in and out."""
