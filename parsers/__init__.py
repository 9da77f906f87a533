"""
Limits and readers for documents from users: JSON, TOML, YAML, CSV, XML, ZIP, HTML, DICOM.

`limits` states every limit. The readers do no I/O. They raise `DocumentRefused` for a document that
is malformed or exceeds a limit. `bridge.workers.pool` runs the costly ones in a worker process.
"""
