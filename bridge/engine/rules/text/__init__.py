"""Rules about the text of a report: document model, findings, checks, billing codes."""
