"""Support for authors of definitions: trial, comparison, and inference from sample messages."""
