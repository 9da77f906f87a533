"""
Limits and readers for documents that users bring: JSON, TOML, YAML, CSV, XML, ZIP, HTML, DICOM.

`limits` states every limit. The readers are pure and refuse a document by its text, before they
build anything of it. `bridge.workers.pool` runs the costly ones in a worker process.
"""
