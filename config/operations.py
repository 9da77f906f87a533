"""Settings of operations: alerts, retention, traces."""

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from config.addresses import web_address
from config.quantities import Bytes, Seconds
from config.sections import Section


class MailSettings(Section):
    """Alerts by e-mail."""

    host: str = Field(min_length=1, description="the SMTP server")
    port: int = Field(587, ge=1, le=65535, description="its port")
    sender: str = Field(alias="from", min_length=3, description="address of the sender")
    to: list[str] = Field(min_length=1, description="addresses of the recipients")
    security: Literal["none", "starttls", "tls"] = Field(
        "starttls", description="none | starttls | tls"
    )
    user: str = Field("", description="account; empty: no sign-in")
    password_file: Path | None = Field(None, description="holds the password")
    ca: Path | None = Field(None, description="authorities; empty: those of the system")


class WebhookSettings(Section):
    """Alerts by a POST of JSON."""

    url: str = Field(description="address of the POST")
    authorization_file: Path | None = Field(None, description="holds the Authorization header")

    @field_validator("url")
    @classmethod
    def _address(cls, value: str) -> str:
        web_address(value, "https://alerts.example.org/bridge", query=True)
        return value


class Alerts(Section):
    """Thresholds of alerts; 0 disables one."""

    every: Seconds = Field(30.0, gt=0, description="time between two checks")
    repeat_every: Seconds = Field(
        86400.0, description="time between reminders of an active alert; 0: none"
    )
    hold_down: Seconds = Field(
        600.0,
        description="three returns within this time: flapping, until absent for this time",
    )
    queue_depth: int = Field(1000, ge=0, description="messages or results that wait")
    queue_age: Seconds = Field(
        600.0, description="time that the oldest message or result has waited"
    )
    parked: int = Field(1, ge=0, description="parked messages or results")
    refused: int = Field(50, ge=0, description="messages that a listener refused within an hour")
    disk_free: Bytes = Field(2**30, description="free space on the disk of HOME, at least")
    certificate_before: Seconds = Field(
        14 * 86400.0, description="time before a certificate expires"
    )
    mail: MailSettings | None = Field(
        None, description="also port (587), security (starttls, tls, none), user, password_file, ca"
    )
    webhook: WebhookSettings | None = Field(None, description="also authorization_file")


class Retention(Section):
    """How long finished messages are kept. Reports and the audit trail are always kept."""

    keep: Seconds = Field(
        0.0, description="how long finished messages and results are kept, such as 90d; 0: always"
    )
    max_size: Bytes = Field(
        0, description="largest size of messages and acknowledgments; 0: no limit"
    )
    archive: Path | None = Field(
        None, description="folder for removed messages, compressed; contains patient data"
    )
    every: Seconds = Field(3600.0, gt=0, description="time between two runs")


class Tracing(Section):
    """OpenTelemetry traces; need the extra `report-bridge[tracing]`."""

    endpoint: str = Field("", description="an OTLP/HTTP collector, http://host:4318; empty: off")
    share: float = Field(1.0, ge=0, le=1, description="share of the messages that are traced")

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str) -> str:
        return web_address(value, "http://127.0.0.1:4318") if value else value
