"""
The sections of `bridge.toml`, one model each. A field's description is its comment in the example.

Unknown keys are errors, so that a misspelt setting does not silently keep its default.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from config.quantities import (
    Bytes,
    DestinationAddress,
    DicomAddress,
    DicomWebAddress,
    FolderAddress,
    HostPort,
    Seconds,
    TimeZone,
    Title,
    WebAddress,
    parse_address,
    web_address,
)

Target = Annotated[
    str,
    StringConstraints(
        pattern=r"^(none|OBX|NTE|Z[A-Z0-9]{2}(-[1-9]\d?)?|(OBR|ORC|PV1|PID)-[1-9]\d?)$"
    ),
]


class Rendering(BaseModel):
    """
    Rendering options of a destination; without a value the mapping decides.

    `docs/reference/mapping-language.md` explains them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    version: Literal["2.3", "2.3.1", "2.4", "2.5.1"] | None = Field(
        None, description="2.3 | 2.3.1 | 2.4 | 2.5.1; unset, up to metadata: as the mapping"
    )
    content: list[Literal["text", "pdf", "rtf"]] | None = Field(
        None, min_length=1, description="text, pdf, rtf: forms of the report that are sent"
    )
    layout: Literal["lines", "repetitions", "formatted"] | None = Field(
        None, description="lines | repetitions | formatted: an OBX a line, repetitions, or FT"
    )
    sections: str | None = Field(
        None, min_length=1, description="none | loinc | dicom: an OBX-3 for each section"
    )
    addenda: Literal["whole", "newest", "child", "mdm", "none"] | None = Field(
        None, description="whole | newest | child | mdm | none: how an addendum is sent"
    )
    orders: Literal["separate", "combined", "grouped", "repeated"] | None = Field(
        None, description="separate | combined | grouped | repeated: linked orders"
    )
    interpreter: Literal["ndl", "xcn", "name"] | None = Field(
        None, description="ndl | xcn | name: OBR-32"
    )
    times: Literal["offset", "local"] | None = Field(
        None, description="offset | local: date-times with or without their offset to UTC"
    )
    echo: Literal["fields", "whole"] | None = Field(
        None, description="fields | whole: fields of the order's PV1, ORC and OBR that return"
    )
    metadata: dict[str, Target] = Field(
        default_factory=dict, description="place of each key: OBX, NTE, none, a Z segment, a field"
    )


class Section(BaseModel):
    """Base of all sections: immutable, without unknown keys, with validated defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _names_a_file(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse an empty path: it would be the data directory itself."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if value == "" and (annotation is Path or Path in get_args(annotation)):
            raise ValueError("write the path of a file, relative to HOME")
        return value


_POSTGRESQL: Final = re.compile(
    r"postgresql\+psycopg://(.*@)?(\[[^]/?@]+\]|[^]\[/:?@]*)(:\d{1,5})?(/[^?]*)?(\?.*)?"
)
_SQLITE: Final = re.compile(r"sqlite:///[^?:]+")


def _web_address(value: str) -> str:
    return web_address(value, "https://reports.example.org")


class DatabaseSettings(Section):
    """The databases of the bridge and of the internal engine."""

    url: str = Field(
        "sqlite:///bridge.db",
        description="address, relative to HOME; for several nodes: postgresql+psycopg://…",
    )
    engine_url: str = Field(
        "",
        description="database of the report engine; empty: url, or on SQLite a second file",
    )
    pool_size: int = Field(
        10,
        ge=2,
        le=500,
        description="connections that a process keeps open to each of the two databases",
    )
    pool_overflow: int = Field(
        10,
        ge=0,
        le=500,
        description="further connections under load; a process adds three without a pool",
    )
    pool_timeout: Seconds = Field(
        30.0,
        gt=0,
        le=300,
        description="how long work waits for a connection before it is tried again",
    )

    require_synchronous: bool = Field(
        False,
        description="PostgreSQL: write only if commits wait for a synchronous standby",
    )
    short_work_on_loop: bool = Field(
        True,
        description="ignored: earlier releases committed small transactions on the event loop",
    )
    commit_delay: bool = Field(
        True,
        description="ignored: messages that wait while a commit runs share the next one",
    )
    index_key_file: Path = Field(
        Path("secrets/index.key"),
        description="key of the hashes of patient identifiers; the same on all nodes",
    )

    @field_validator("url", "engine_url")
    @classmethod
    def _known_dialect(cls, value: str) -> str:
        if value and not (_POSTGRESQL.fullmatch(value) or _SQLITE.fullmatch(value)):
            raise ValueError('write "sqlite:///file.db" or "postgresql+psycopg://user@host/name"')
        return value


class Http(Section):
    """HTTP: report engine, reporting app, console, metrics."""

    bind: HostPort = Field(parse_address("127.0.0.1:8575"), description="host:port")
    probe_bind: HostPort | None = Field(
        None, description="health and metrics of a process without the engine or console role"
    )
    public_url: str = Field(
        "http://127.0.0.1:8575", description="address that browsers use; all links begin with it"
    )
    banner: str = Field(
        "", max_length=80, description="text that all pages show at the top, such as TEST"
    )
    regional_urls: list[str] = Field(
        default_factory=list, description="addresses beside public_url, for launches sent to them"
    )
    trusted_proxies: list[str] = Field(
        default_factory=list,
        description="addresses of proxies whose X-Forwarded-* headers are used",
    )
    max_connections: int = Field(
        1000,
        ge=16,
        le=50_000,
        description="connections at a time; at most half of the file descriptors",
    )
    max_connections_per_source: int = Field(
        250,
        ge=4,
        le=50_000,
        description="connections of one address (IPv6: /64) except trusted_proxies",
    )
    head_timeout: Seconds = Field(
        10.0, gt=0, le=300, description="seconds for the first line and the headers of a request"
    )
    body_timeout: Seconds = Field(
        10.0, gt=0, le=300, description="seconds without a byte of a request's body"
    )
    body_rate: Bytes = Field(
        16 * 2**10, ge=1, description="minimum bytes a second of a request's body"
    )
    idle_timeout: Seconds = Field(
        75.0, gt=0, le=3600, description="time between two requests of a connection"
    )
    write_timeout: Seconds = Field(
        30.0, gt=0, le=3600, description="seconds in which the client reads nothing of the response"
    )
    body_memory: Bytes = Field(
        96 * 2**20, ge=2**20, description="bytes of all request bodies in progress; more get 503"
    )

    @field_validator("public_url")
    @classmethod
    def _public(cls, value: str) -> str:
        return _web_address(value)

    @field_validator("regional_urls")
    @classmethod
    def _regional(cls, value: list[str]) -> list[str]:
        return [_web_address(item) for item in value]


class Engine(Section):
    """The report engine that the bridge calls."""

    base_url: str = Field(
        "internal", description="internal, or the address of a service with the same interface"
    )
    token_file: Path = Field(
        Path("secrets/engine.token"),
        description="service token with all rights on all sites; init writes the file",
    )
    tokens: dict[str, Path] = Field(
        default_factory=dict,
        description="a token file for each site, for a service with tokens by site",
    )
    link_keys_file: Path = Field(
        Path("secrets/link.keys"), description="the key ring that seals links; newest first"
    )
    browser_init: bool = Field(
        True, description="allow GET /reporting/init, whose address contains a token"
    )
    second_process: str = Field(
        "", deprecated="has no effect since 2026-11-24: use the roles of `bridge serve`"
    )

    @field_validator("base_url")
    @classmethod
    def _internal_or_address(cls, value: str) -> str:
        return value if value == "internal" else _web_address(value)

    @property
    def is_internal(self) -> bool:
        return self.base_url == "internal"


class Assistance(Section):
    """Assistance in writing reports; the models are endpoints that the installation chooses."""

    browser_speech: bool = Field(
        True, description="dictate with the browser's recognizer; its vendor may get the speech"
    )
    transcription_url: str = Field(
        "", description="full address …/v1/audio/transcriptions (OpenAI); empty: none"
    )
    transcription_model: str = Field("whisper-1", description="name of the speech model")
    transcription_key_file: Path | None = Field(None, description="holds the API key")
    placing_url: str = Field(
        "", description="model that places key findings, …/v1/chat/completions; empty: rules"
    )
    placing_model: str = Field("", description="name of the language model")
    placing_key_file: Path | None = Field(None, description="holds the API key")

    @field_validator("transcription_url", "placing_url")
    @classmethod
    def _address_or_none(cls, value: str) -> str:
        return _web_address(value) if value else value

    @model_validator(mode="after")
    def _placing_needs_a_model(self) -> "Assistance":
        if self.placing_url and not self.placing_model:
            raise ValueError("placing_model: needed with placing_url")
        return self


class DestinationTLS(Section):
    """TLS towards a destination; certificate and key make it mutual."""

    ca: Path | None = Field(None, description="authorities; empty: those of the system")
    certificate: Path | None = Field(None, description="certificate of the service, for mutual TLS")
    key: Path | None = Field(None, description="private key of the certificate")
    server_name: str | None = Field(None, description="name in the certificate; empty: the host")
    crl: Path | None = Field(None, description="revocation list; needs ca")

    @model_validator(mode="after")
    def _revocation_list_needs_authorities(self) -> "DestinationTLS":
        if self.crl is not None and self.ca is None:
            raise ValueError("crl: needs ca")
        return self


ReplyKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^((AA|AE|AR|CA|CE|CR)( [A-Za-z0-9_.-]{1,20})?|mismatch"
        r"|garbage( unframed)?|silence( (timeout|closed))?|http( [1-5](\d\d|xx))?"
        r"|dicom( [0-9A-F](xxx|[0-9A-F](xx|[0-9A-F]{2})))?)$"
    ),
]
ReplyAction = Annotated[
    str,
    StringConstraints(
        pattern=r"^(delivered|retry|park|skip|pause|retry [1-9]\d{0,5} then (park|skip|pause))$"
    ),
]
DestinationEvent = Literal["final", "addendum", "preliminary", "recall", "order-status"]


class DestinationDicom(Section):
    """What a PACS gets of a report, and how it is stored there."""

    forms: list[Literal["pdf", "sr"]] = Field(
        ["pdf", "sr"], min_length=1, description="pdf (Encapsulated PDF), sr (Basic Text SR)"
    )
    calling_ae_title: Title = Field("REPORT_BRIDGE", description="dicom: our AE title")
    commitment: bool = Field(
        False, description="dicom: request storage commitment for the objects that were stored"
    )
    commitment_within: Seconds = Field(
        86400.0, gt=0, description="time to commit; then the PACS is asked again, up to 20 requests"
    )
    charset: Literal[
        "ISO_IR 192",
        "ISO_IR 100",
        "ISO_IR 101",
        "ISO_IR 109",
        "ISO_IR 110",
        "ISO_IR 144",
        "ISO_IR 127",
        "ISO_IR 126",
        "ISO_IR 138",
        "ISO_IR 148",
        "ISO_IR 13",
        "ISO_IR 166",
        "GB18030",
    ] = Field("ISO_IR 192", description="character set of the objects; ISO_IR 192: UTF-8")
    language: str = Field("", max_length=16, description="language of the texts, as en or pt-BR")
    organization: str = Field(
        "", max_length=64, description="institution, and verifying organization; empty: the site"
    )
    series_description: str = Field("Report", max_length=64, description="text of the series")
    series_number: int = Field(
        9000, ge=1, le=2**31 - 3, description="number of the PDF's series; SR: the next one"
    )


_OF_DIMSE: Final = ("calling_ae_title", "commitment", "commitment_within")
_OF_HL7: Final = (
    *("version", "content", "layout", "addenda", "orders", "interpreter", "times", "echo"),
    *("metadata", "fields"),
)
_OTHER_REPLIES: Final = frozenset({"AA", "AE", "AR", "CA", "CE", "CR", "mismatch"})
_PACS_REPLIES: Final = frozenset({"dicom"})
_PACS_EVENTS: Final = frozenset({"final", "addendum"})


class DestinationSettings(Section, Rendering):
    """One receiver of results: an MLLP port, a folder, HL7 over HTTP, or a PACS."""

    name: str = Field(
        min_length=1, pattern=r"^[A-Za-z0-9._-]+$", description="a name of your choice"
    )
    address: DestinationAddress = Field(
        description='also "folder:PATH", "http://host:port/path", "https://…"; '
        'a PACS: "dicom://TITLE@host:port", "dicomweb+https://…"'
    )
    enabled: bool = Field(
        True, description="false: the destination is kept in the settings, but gets nothing"
    )
    mapping: str = Field("results", description="definition that composes the messages")
    sites: list[str] = Field(
        ["*"], min_length=1, description="sites whose results are sent; *: all"
    )
    events: list[DestinationEvent] = Field(
        ["final", "addendum"], description="also: preliminary, recall, order-status"
    )
    time_zone: TimeZone = Field("UTC", description="time zone of times in the messages")
    fields: dict[str, str] = Field(
        default_factory=dict, description="$destination.… of the mapping, MSH-3 to MSH-6 first"
    )
    connect_timeout: Seconds = Field(10.0, gt=0, description="time to connect")
    ack_timeout: Seconds = Field(30.0, gt=0, description="time to wait for each acknowledgment")
    retry_first: Seconds = Field(
        1.0, gt=0, description="time until the second attempt; doubled with jitter up to retry_max"
    )
    retry_max: Seconds = Field(60.0, description="longest time between two attempts")
    breaker_after: int = Field(
        5, ge=0, description="attempts in a row without a reply before the circuit opens; 0: never"
    )
    replies: dict[ReplyKey, ReplyAction] = Field(
        default_factory=dict,
        description='actions for AE, CR, "AE 206" (ERR-3), mismatch, silence, garbage, http, '
        '"dicom A7xx"',
    )
    tls: DestinationTLS | None = Field(None, description="TLS; empty: unencrypted")
    authorization_file: Path | None = Field(
        None, description="HTTP: file with the Authorization header that is sent"
    )
    answer_files: bool = Field(
        False, description="folder: delivered when acks/NAME.ack accepts the file"
    )
    dicom: DestinationDicom | None = Field(
        None,
        description="PACS: also calling_ae_title, commitment_within, charset, language, "
        "organization, series_description, series_number",
    )

    @property
    def is_pacs(self) -> bool:
        """Whether reports are sent as DICOM objects."""
        return isinstance(self.address, DicomAddress | DicomWebAddress)

    @model_validator(mode="after")
    def _retries_grow(self) -> "DestinationSettings":
        if self.retry_max < self.retry_first:
            raise ValueError("retry_max: shorter than retry_first")
        return self

    @model_validator(mode="after")
    def _settings_fit_the_kind(self) -> "DestinationSettings":
        fits = {"authorization_file": WebAddress, "answer_files": FolderAddress}
        for name, kind in fits.items():
            if getattr(self, name) and not isinstance(self.address, kind):
                raise ValueError(f"{name}: not a setting of a destination at {self.address}")
        if self.tls is not None and isinstance(self.address, FolderAddress):
            raise ValueError("tls: not a setting of a folder")
        is_http = isinstance(self.address, WebAddress) and not self.address.secure
        if self.tls is not None and is_http:
            raise ValueError("tls: write https:// before the address")
        return self

    @model_validator(mode="after")
    def _settings_fit_a_pacs(self) -> "DestinationSettings":
        foreign = _OTHER_REPLIES if self.is_pacs else _PACS_REPLIES
        if unused := [key for key in self.replies if key.partition(" ")[0] in foreign]:
            raise ValueError(f"replies: {unused[0]} is no reply of a destination at {self.address}")
        if not self.is_pacs:
            if self.dicom is not None:
                raise ValueError(f"dicom: not a setting of a destination at {self.address}")
            return self
        if wrong := _changed(self, _OF_HL7):
            raise ValueError(f"{', '.join(wrong)}: not a setting of a PACS, which gets no HL7")
        if other := sorted(set(self.events) - _PACS_EVENTS):
            raise ValueError(f"events: a PACS gets no {', '.join(other)}")
        is_web = isinstance(self.address, DicomWebAddress)
        if self.dicom is not None and is_web and (wrong := _changed(self.dicom, _OF_DIMSE)):
            raise ValueError(f"dicom.{wrong[0]}: not a setting of a DICOMweb service")
        return self


def _changed(section: BaseModel, names: tuple[str, ...]) -> list[str]:
    """Return the settings that do not have their default."""
    fields = type(section).model_fields
    return [
        name
        for name in names
        if getattr(section, name) != fields[name].get_default(call_default_factory=True)
    ]


class IntakeSettings(Section):
    """Limits that all listeners of a process share."""

    frame_memory: Bytes = Field(
        256 * 2**20,
        ge=2**20,
        description="memory of frames in progress of a process; then senders wait",
    )


class ScheduleSettings(Section):
    """How often recurring work runs."""

    poll_status_every: Seconds = Field(
        5.0, description="time between two calls of a report service without a change feed"
    )


class LogFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


class Log(Section):
    """The log of the service, which never contains patient data."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug | info | warning | error"
    )
    format: LogFormat = Field(LogFormat.TEXT, description="text | json")


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
    rejecting: int = Field(3, ge=0, description="refusals of a destination in a row")
    quiet: int = Field(
        12, ge=0, description="messages that a listener usually receives in the time of its silence"
    )
    growing: int = Field(50, ge=0, description="entries in a queue that does not get shorter")
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


class ConsoleSettings(Section):
    """The console's background jobs."""

    keep_exports: Seconds = Field(
        86400.0, gt=0, description="how long the file of an export can be downloaded"
    )


class Tracing(Section):
    """OpenTelemetry traces; need the extra `report-bridge[tracing]`."""

    endpoint: str = Field("", description="an OTLP/HTTP collector, http://host:4318; empty: off")
    share: float = Field(1.0, ge=0, le=1, description="share of the messages that are traced")

    @field_validator("endpoint")
    @classmethod
    def _address(cls, value: str) -> str:
        return web_address(value, "http://127.0.0.1:4318") if value else value


class Rates(Section):
    """
    Maximum number of requests per minute and access token. The service token has no limit.

    Hospitals launch for all readers with the token of one administrator, so the limits are high.
    """

    reads: int = Field(
        6000, ge=0, description="requests that read, a minute and token; here and below 0: no limit"
    )
    launches: int = Field(1200, ge=0, description="launch and init")
    exports: int = Field(600, ge=0, description="exported documents")
    failed_authentications: int = Field(
        20, ge=0, description="failures in 15 minutes from one address, except loopback"
    )


class Sizes(Section):
    """Maximum sizes of a request; larger ones are refused with 413 or 400."""

    body: Bytes = Field(64 * 2**20, ge=2**10, description="the whole request")
    structured_reports: int = Field(20, ge=1, description="dicomSR files")
    structured_report: Bytes = Field(10 * 2**20, ge=1, description="size of one file, decoded")
    key_images: int = Field(50, ge=1, description="key images of a launch")
    key_image: Bytes = Field(10 * 2**20, ge=1, description="size of one image, decoded")
    key_image_pixels: int = Field(40_000_000, ge=1, description="pixels of one image")
    key_findings: int = Field(
        100_000, ge=1, description="characters; also of Notes and ReasonForExam"
    )
    metadata: Bytes = Field(64 * 2**10, ge=2, description="Metadata of an order")
    metadata_depth: int = Field(8, ge=1, le=60, description="levels of nesting in Metadata")
    status_list: int = Field(500, ge=500, description="orders of one status query")
    link_list: int = Field(50, ge=2, description="orders to link or unlink at once")
    batch: int = Field(500, ge=100, description="launches of one batch")


class LifetimeSettings(Section):
    """Lifetimes of links and sessions; a site may override them."""

    frame_link: Seconds = Field(12 * 3600.0, ge=60, description="a link that acts as its user")
    enrolment_link: Seconds = Field(
        72 * 3600.0, ge=60, description="a one-time link to set a password"
    )
    login_link: Seconds = Field(90 * 86400.0, ge=60, description="a link that asks to sign in")
    session: Seconds = Field(
        12 * 3600.0, ge=300, description="time from the sign-in to the end of the session"
    )
    session_idle: Seconds = Field(
        30 * 60.0,
        ge=300,
        le=480 * 60,
        description="time without activity after which the session ends",
    )


_EXAMPLE = "https://id.example.org/realm"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class OpenIDConnect(Section):
    """An OpenID Connect provider for sign-in. Accounts and roles stay in the report engine."""

    issuer: str = Field(description="the provider's address, https")
    client_id: str = Field(min_length=1, description="as registered at the provider")
    client_secret_file: Path | None = Field(None, description="holds the client secret")
    label: str = Field(
        "Single sign-on", min_length=1, max_length=60, description="text of the button"
    )
    scopes: str = Field("openid email", description="scopes that are requested")
    email_claim: str = Field("email", min_length=1, description="claim with the address")
    verified_only: bool = Field(True, description="accept verified addresses only")
    ca: Path | None = Field(None, description="authorities of the provider's certificate")

    @field_validator("issuer")
    @classmethod
    def _address(cls, value: str) -> str:
        address = web_address(value, _EXAMPLE)
        parts = urlsplit(address)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ValueError(f'write an address such as "{_EXAMPLE}"')
        return address


class SignIn(Section):
    """Sign-in with passwords, an OpenID Connect provider, or both."""

    passwords: bool = Field(True, description="false: sign-in with the provider only")
    second_factor: Literal["required", "optional"] = Field(
        "required", description="required | optional: one-time codes of console roles, without oidc"
    )
    oidc: OpenIDConnect | None = Field(
        None, description="also label, scopes, email_claim, verified_only, ca"
    )

    @model_validator(mode="after")
    def _requires_a_way(self) -> "SignIn":
        if not self.passwords and self.oidc is None:
            raise ValueError("passwords: false needs oidc: otherwise nobody can sign in")
        return self


class ChannelKind(StrEnum):
    """The kinds of channels, which have queues: each has a section of its own in `bridge.toml`."""

    LISTENER = "listener"
    DESTINATION = "destination"


class PeerKind(StrEnum):
    """The kind of applications that may use the DICOM port: `[[dicom.peer]]` in `bridge.toml`."""

    DICOM = "dicom-peer"


ConnectionKind = ChannelKind | PeerKind
"""What the console can save as a whole."""
