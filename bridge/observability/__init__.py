"""
Logs and metrics that can be shown to anybody: no patient data, by construction.

Pure names are exported here; `logs` sets the logging up, `metrics` counts.
"""

from bridge.observability.redaction import describe, safe_text

__all__ = ["describe", "safe_text"]
