"""The parts of the service that `bridge serve --role` can run apart."""

from enum import StrEnum


class Role(StrEnum):
    """One part; PostgreSQL is what parts on several machines share."""

    INTAKE = "intake"
    DELIVERY = "delivery"
    ENGINE = "engine"
    CONSOLE = "console"
