"""Typed settings of a data directory, and its private files. Knows nothing of HL7 or HTTP."""

from config.errors import SettingsError
from config.settings import Settings, load

__all__ = ["Settings", "SettingsError", "load"]
