"""Export formats of a report: HTML, RTF, DOCX, PDF and the JSON export record."""
