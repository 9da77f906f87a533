"""Documents of a report: export formats, uploaded files, QR codes and FHIR audit events."""
