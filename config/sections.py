"""
The sections of `bridge.toml`, one model each; a field's description is its comment in the example.

Unknown keys are errors: a misspelt setting must not be a setting silently left at its default.
"""

from enum import StrEnum
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from config.quantities import Bytes, HostPort, Seconds, parse_address


class Section(BaseModel):
    """What all sections share: immutable, no unknown keys, defaults checked too."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def _web_address(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.query or parts.fragment:
        raise ValueError('write an address such as "https://reports.example.org"')
    return value.rstrip("/")


class Database(Section):
    """Where everything is kept."""

    url: str = Field(
        "sqlite:///bridge.db",
        description="relative to HOME; postgresql+psycopg://… for several nodes",
    )
    engine_url: str = Field(
        "",
        description="the report engine's own; empty: the same PostgreSQL, or a file beside",
    )

    @field_validator("url", "engine_url")
    @classmethod
    def _known_dialect(cls, value: str) -> str:
        if value and not value.startswith(("sqlite:///", "postgresql+psycopg://")):
            raise ValueError('write "sqlite:///file.db" or "postgresql+psycopg://user@host/name"')
        return value


class Http(Section):
    """The web side: report engine, reporting app, console, metrics."""

    bind: HostPort = Field(parse_address("127.0.0.1:8575"), description="host:port")
    probe_bind: HostPort | None = Field(
        None, description="health and metrics of a process without the engine or console role"
    )
    public_url: str = Field(
        "http://127.0.0.1:8575", description="what links begin with, as browsers reach it"
    )
    regional_urls: list[str] = Field(
        default_factory=list, description="further public addresses of the same service"
    )
    trusted_proxies: list[str] = Field(
        default_factory=list, description="whose X-Forwarded-* headers are believed"
    )

    @field_validator("public_url")
    @classmethod
    def _public(cls, value: str) -> str:
        return _web_address(value)

    @field_validator("regional_urls")
    @classmethod
    def _regional(cls, value: list[str]) -> list[str]:
        return [_web_address(each) for each in value]


class Engine(Section):
    """The report service that the bridge talks to."""

    base_url: str = Field(
        "internal", description="or the address of a service that speaks the interface document"
    )
    token_file: Path = Field(
        Path("secrets/engine.token"),
        description="written by init: a service token, administrator of every site",
    )
    tokens: dict[str, Path] = Field(
        default_factory=dict, description="one a site, for a service that issues tokens by site"
    )
    link_keys_file: Path = Field(
        Path("secrets/link.keys"), description="the key ring that seals links; newest first"
    )

    @field_validator("base_url")
    @classmethod
    def _internal_or_address(cls, value: str) -> str:
        return value if value == "internal" else _web_address(value)

    @property
    def is_internal(self) -> bool:
        """Whether this process's own engine is meant."""
        return self.base_url == "internal"


class ListenerTLS(Section):
    """TLS of a listener; `client_ca` makes it mutual."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class DestinationTLS(Section):
    """TLS towards a destination; certificate and key make it mutual."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str | None = None


class Acknowledge(StrEnum):
    """What a positive acknowledgment of a listener means."""

    STORED = "stored"
    CHECKED = "checked"
    APPLIED = "applied"


class ReusedControlId(StrEnum):
    """What becomes of other bytes under a control id that was used before."""

    ACCEPT = "accept"
    REFUSE = "refuse"


class Listener(Section):
    """One MLLP port on which orders and patient updates arrive."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    bind: HostPort = Field(description="2575 is the registered HL7 port")
    mappings: list[str] = Field(["orders", "patients"], min_length=1)
    site: str = Field("", description="SiteID where the mapping yields none")
    time_zone: str = Field("UTC", description="of date-times that carry none")
    acknowledge: Acknowledge = Field(Acknowledge.CHECKED, description="stored | checked | applied")
    reused_control_id: ReusedControlId = Field(
        ReusedControlId.ACCEPT, description="accept | refuse: other bytes under a used MSH-10"
    )
    processing_ids: list[str] = Field(["P"], description="MSH-11 values accepted")
    charset: str = Field("utf-8", description="where MSH-18 is silent")
    max_frame: Bytes = Field(16 * 2**20)
    max_connections: int = Field(500, ge=1)
    frame_timeout: Seconds = Field(10.0, description="from a frame's first byte to its last")
    idle_timeout: Seconds = Field(0.0, description="0: keep silent connections, TCP keep-alive on")
    tls: ListenerTLS | None = None


DestinationEvent = Literal["final", "addendum", "preliminary", "recall", "order-status"]


class Destination(Section):
    """One MLLP receiver of results."""

    name: str = Field(min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    address: HostPort
    mapping: str = "results"
    sites: list[str] = Field(["*"], min_length=1)
    events: list[DestinationEvent] = Field(
        ["final", "addendum"], description="also: preliminary, recall, order-status"
    )
    time_zone: str = Field("UTC", description="of the date-times we write")
    fields: dict[str, str] = Field(
        default_factory=dict, description="$destination.… of the mapping, MSH-3 to MSH-6 first"
    )
    connect_timeout: Seconds = 10.0
    ack_timeout: Seconds = 30.0
    retry_first: Seconds = Field(1.0, description="doubled with jitter up to retry_max")
    retry_max: Seconds = 60.0
    replies: dict[str, Literal["delivered", "retry", "park"]] = Field(
        default_factory=dict,
        description="what AE, AR, CE, CR, mismatch, silence, garbage lead to; default: retry",
    )
    tls: DestinationTLS | None = None


class Schedule(Section):
    """How often recurring work runs."""

    poll_status_every: Seconds = 5.0


class LogFormat(StrEnum):
    """How log lines look."""

    JSON = "json"
    TEXT = "text"


class Log(Section):
    """The log of the service; never holds patient data."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: LogFormat = LogFormat.TEXT
