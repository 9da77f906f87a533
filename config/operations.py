"""Settings of those who run the bridge: alerts, retention, traces."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from config.addresses import web_address
from config.quantities import Bytes, Seconds
from config.sections import Section


class Mail(Section):
    """Alerts by e-mail."""

    host: str = Field(min_length=1)
    port: int = Field(587, ge=1, le=65535)
    sender: str = Field(alias="from", min_length=3)
    to: list[str] = Field(min_length=1)
    security: Literal["none", "starttls", "tls"] = "starttls"
    user: str = ""
    password_file: Path | None = None
    ca: Path | None = None


class Webhook(Section):
    """Alerts by a POST of JSON."""

    url: str
    authorization_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        web_address(value, "https://alerts.example.org/bridge", query=True)
        return value


class Alerts(Section):
    """What people are told about, once, until it is over; 0 switches one off."""

    every: Seconds = Field(30.0, gt=0, description="how often is looked")
    repeat_every: Seconds = Field(86400.0, description="reminders of what still stands; 0: none")
    hold_down: Seconds = Field(
        600.0,
        description="what came back thrice within so long is over when gone for so long",
    )
    queue_depth: int = Field(1000, ge=0, description="so many wait")
    queue_age: Seconds = Field(600.0, description="the oldest has waited for so long")
    parked: int = Field(1, ge=0, description="so many are parked")
    refused: int = Field(50, ge=0, description="a listener refused so many within an hour")
    disk_free: Bytes = Field(2**30, description="less is left on the disk of HOME")
    certificate_before: Seconds = Field(14 * 86400.0, description="a certificate expires so soon")
    mail: Mail | None = Field(
        None, description="also port (587), security (starttls, tls, none), user, password_file, ca"
    )
    webhook: Webhook | None = Field(None, description="also authorization_file")


class Retention(Section):
    """How long what is finished is kept; reports and the audit trail always are."""

    keep: Seconds = Field(0.0, description="such as 90d; 0: for ever")
    max_size: Bytes = Field(0, description="of messages and acknowledgments; 0: no limit")
    archive: Path | None = Field(
        None, description="a folder that gets what is removed, compressed, patient data and all"
    )
    every: Seconds = Field(3600.0, gt=0, description="how often is looked")


class Tracing(Section):
    """OpenTelemetry traces; need the extra `report-bridge[tracing]`."""

    endpoint: str = Field("", description="an OTLP/HTTP collector, http://host:4318; empty: off")
    share: float = Field(1.0, ge=0, le=1, description="of the messages that are traced")

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str) -> str:
        return web_address(value, "http://127.0.0.1:4318") if value else value
