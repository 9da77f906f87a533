"""Typed settings of a data directory, and its private files. Knows nothing of HL7 or HTTP."""

from config.settings import Settings, load
from config.toml_text import SettingsError

__all__ = ["Settings", "SettingsError", "load"]
