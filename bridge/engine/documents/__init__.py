"""Documents of reports: exports in every format, structured reports and images read, QR codes."""
