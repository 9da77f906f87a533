"""
The `[[listener]]` sections of `bridge.toml`.

A setting that has no effect for the kind of listener is a mistake.
"""

from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator, model_validator

from config.quantities import (
    AnyAddress,
    Bytes,
    FolderAddress,
    Seconds,
    TimeZone,
    WebAddress,
    parse_network,
)
from config.sections import Section

_MLLP_ONLY: Final = (
    *("max_connections", "max_connections_per_source", "allow"),
    *("frame_timeout", "idle_timeout"),
    *("commit_blocks", "share_port", "tls"),
)
_MIN_PER_SOURCE: Final = 16
_WEB_ONLY: Final = ("authorization_file",)
_FOLDER_ONLY: Final = ("answer_files", "scan_every")


class ListenerTLS(Section):
    """TLS of a listener; `client_ca` makes it mutual."""

    certificate: Path = Field(description="certificate of the listener, with its chain")
    key: Path = Field(description="private key of the certificate")
    client_ca: Path | None = Field(
        None, description="authorities of senders' certificates; required for mutual TLS"
    )
    client_crl: Path | None = Field(None, description="revocation list; needs client_ca")

    @model_validator(mode="after")
    def _revocation_list_needs_authorities(self) -> "ListenerTLS":
        if self.client_crl is not None and self.client_ca is None:
            raise ValueError("client_crl: needs client_ca")
        return self


class Acknowledge(StrEnum):
    """The guarantee that a positive acknowledgment gives."""

    STORED = "stored"
    CHECKED = "checked"
    APPLIED = "applied"


class ReusedControlId(StrEnum):
    """The treatment of a different message with a control id that was used before."""

    ACCEPT = "accept"
    REFUSE = "refuse"


class MergedPatients(StrEnum):
    """The treatment of messages about an identifier that was merged into another."""

    REDIRECT = "redirect"
    REFUSE = "refuse"


class PatientConflict(StrEnum):
    """The treatment of a message that names another patient for a known order."""

    PARK = "park"
    REFUSE = "refuse"
    MOVE = "move"
    ACCEPT = "accept"


class Replies(StrEnum):
    """The form of the reply to an order message."""

    ACK = "ack"
    ORDER = "order"


class SequenceNumbers(StrEnum):
    """The use of sequence numbers (MSH-13) by a listener."""

    OFF = "off"
    CHECK = "check"
    REQUIRE = "require"


class Validation(StrEnum):
    """The treatment of a message that violates its structure or profile."""

    OFF = "off"
    WARN = "warn"
    REFUSE = "refuse"


class ListenerSettings(Section):
    """One MLLP port, folder or HTTP address on which orders and patient updates arrive."""

    name: str = Field(
        min_length=1, pattern=r"^[A-Za-z0-9._-]+$", description="a name of your choice"
    )
    bind: AnyAddress = Field(
        description='2575 is the registered HL7 port; also "folder:PATH", "http://host:port/path"'
    )
    enabled: bool = Field(
        True, description="false: the listener is kept in the settings, but does not run"
    )
    mappings: list[str] = Field(
        ["orders", "patients"],
        min_length=1,
        description="definitions; the first one that accepts a message maps it",
    )
    site: str = Field("", description="SiteID of orders for which the mapping returns none")
    time_zone: TimeZone = Field("UTC", description="time zone of times without an offset")
    acknowledge: Acknowledge = Field(Acknowledge.CHECKED, description="stored | checked | applied")
    reused_control_id: ReusedControlId = Field(
        ReusedControlId.ACCEPT,
        description="accept | refuse: a new message with an MSH-10 that was used",
    )
    merged_patients: MergedPatients = Field(
        MergedPatients.REDIRECT,
        description="redirect | refuse (parked): messages about a merged identifier",
    )
    patient_conflict: PatientConflict = Field(
        PatientConflict.PARK,
        description="park | refuse (AE 204) | move | accept: another patient for a known order",
    )
    replies: Replies = Field(
        Replies.ACK, description="ack | order: ORR, ORI or ORG, with an ORC for each order"
    )
    sequence_numbers: SequenceNumbers = Field(
        SequenceNumbers.OFF,
        description="off | check | require: sequence numbers of each sender (MSH-13, MSA-4)",
    )
    validation: Validation = Field(
        Validation.OFF,
        alias="validate",
        description="off | warn | refuse: compare with the structure of the version; slow",
    )
    profile: Path | None = Field(
        None, description="conformance profile (XML) that validate uses instead of the version"
    )
    processing_ids: list[str] = Field(["P"], description="accepted values of MSH-11")
    charset: str = Field("utf-8", description="character set of messages without MSH-18")
    max_frame: Bytes = Field(16 * 2**20, gt=0, description="largest message")
    max_connections: int = Field(
        500, ge=1, description="connections at a time; idle ones are closed for new ones"
    )
    max_connections_per_source: int = Field(
        0, ge=0, description="connections of one address (IPv6: /64); 0: half of all, at least 16"
    )
    allow: list[str] = Field(
        default_factory=list,
        description='addresses and networks of senders, as "10.1.0.0/16"; empty: all',
    )
    share_port: bool = Field(
        False,
        description="several nodes of one machine listen on the port (SO_REUSEPORT); PostgreSQL",
    )
    commit_blocks: bool = Field(
        False, description="MLLP release 2: a commit block before each acknowledgment"
    )
    frame_timeout: Seconds = Field(
        10.0, description="time from the first byte of a frame to its last"
    )
    idle_timeout: Seconds = Field(
        0.0, description="time of silence until a connection is closed; 0: never (TCP keep-alive)"
    )
    tls: ListenerTLS | None = Field(None, description="TLS; empty: unencrypted")
    alert_after: Seconds = Field(
        0.0, description="time without a message after which there is an alert; 0: none"
    )
    authorization_file: Path | None = Field(
        None, description="HTTP: file with the Authorization header that senders must send"
    )
    scan_every: Seconds = Field(1.0, description="folder: time between two scans")
    answer_files: bool = Field(
        False, description="folder: write each acknowledgment to its acks/ folder"
    )

    @field_validator("allow")
    @classmethod
    def _networks(cls, value: list[str]) -> list[str]:
        return [parse_network(item) for item in value]

    @property
    def per_source(self) -> int:
        """The maximum number of connections of one source."""
        half = max(self.max_connections // 2, _MIN_PER_SOURCE)
        return min(self.max_connections_per_source or half, self.max_connections)

    @model_validator(mode="after")
    def _settings_fit_the_kind(self) -> "ListenerSettings":
        foreign: tuple[str, ...]  # settings of other kinds of listeners
        match self.bind:
            case FolderAddress():
                foreign, kind = (*_MLLP_ONLY, *_WEB_ONLY), "folder"
            case WebAddress():
                foreign, kind = _FOLDER_ONLY, "HTTP"
                if self.bind.secure != (self.tls is not None):
                    raise ValueError("tls: goes together with an https:// address")
            case _:
                foreign, kind = (*_WEB_ONLY, *_FOLDER_ONLY), "MLLP"
        fields = type(self).model_fields
        wrong = [
            name
            for name in foreign
            if getattr(self, name) != fields[name].get_default(call_default_factory=True)
        ]
        if wrong:
            raise ValueError(f"{', '.join(wrong)}: not a setting of {kind} listeners")
        if self.replies is Replies.ORDER and self.acknowledge is Acknowledge.STORED:
            raise ValueError('replies: "order" needs acknowledge = "checked" or "applied"')
        if self.validation is Validation.REFUSE and self.acknowledge is Acknowledge.STORED:
            raise ValueError('validate: "refuse" needs acknowledge = "checked" or "applied"')
        if self.profile is not None and self.validation is Validation.OFF:
            raise ValueError('profile: needs validate = "warn" or "refuse"')
        return self
