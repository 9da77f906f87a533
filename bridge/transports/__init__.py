"""Folders and HL7 over HTTP: messages in and out beside MLLP, with the same promises."""
