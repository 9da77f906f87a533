"""The worklist: rows, filters, assignment."""
