"""
Report Bridge: HL7 v2 orders in, finished reports out.

The packages inside stand in the order that the import contracts of pyproject.toml give them.
"""

__version__ = "0.1.0"
"""This release, by semantic versioning; the distribution takes it from here."""
