"""The worklist: rows, filters, and the ownership of reports."""
