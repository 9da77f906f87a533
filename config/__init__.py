"""Typed settings of a home folder, and how its logs look. Knows nothing of HL7 or HTTP."""

from config.errors import SettingsError
from config.settings import Settings, load

__all__ = ["Settings", "SettingsError", "load"]
