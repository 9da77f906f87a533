"""Roles of a process (`bridge serve --role`)."""

from enum import StrEnum


class Role(StrEnum):
    """A part of the service; parts on several hosts share a PostgreSQL database."""

    INTAKE = "intake"
    DELIVERY = "delivery"
    ENGINE = "engine"
    CONSOLE = "console"
    DICOM = "dicom"
