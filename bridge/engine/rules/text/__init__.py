"""Rules about the text of a report: documents, sections, findings, checks, billing."""
