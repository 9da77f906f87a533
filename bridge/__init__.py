"""
Report Bridge: HL7 v2 orders in, finished reports out.

The import contracts in pyproject.toml define the layers of its packages.
"""

__version__ = "0.2.0"
"""The version of this release, also of the distribution."""
