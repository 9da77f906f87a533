"""
The sections `[dicom]` and `[[dicom.peer]]` of `bridge.toml`.

The role is off while `bind` is unset. A peer is an application that may open an association; a
restriction of a peer hides what others may see.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from config.listeners import ListenerTLS
from config.quantities import Bytes, HostPort, Network, Seconds, Title
from config.sections import Section

SINGLE: Final = (
    *("ISO_IR 6", "ISO_IR 100", "ISO_IR 101", "ISO_IR 109", "ISO_IR 110", "ISO_IR 144"),
    *("ISO_IR 127", "ISO_IR 126", "ISO_IR 138", "ISO_IR 148", "ISO_IR 13"),
    *("ISO_IR 166", "ISO_IR 192", "GB18030", "GBK"),
)
"""Character sets without code extensions (PS3.3 C.12.1.1.2)."""
_FIRST: Final = (
    *("", "ISO 2022 IR 6", "ISO 2022 IR 100", "ISO 2022 IR 101", "ISO 2022 IR 109"),
    *("ISO 2022 IR 110", "ISO 2022 IR 144", "ISO 2022 IR 127", "ISO 2022 IR 126"),
    *("ISO 2022 IR 138", "ISO 2022 IR 148", "ISO 2022 IR 13"),
    "ISO 2022 IR 166",
)
_FURTHER: Final = (*_FIRST[1:], *(f"ISO 2022 IR {number}" for number in (87, 159, 149, 58)))
MAX_ASSOCIATIONS: Final = 900
"""pynetdicom waits with `select`, which takes no file descriptor above 1023."""


def parse_charset(value: str) -> str:
    r"""Return a value of (0008,0005), as `ISO_IR 100` or `ISO 2022 IR 6\ISO 2022 IR 87`."""
    first, *further = value.split("\\")
    fits = first in _FIRST and set(further) <= set(_FURTHER) if further else first in ("", *SINGLE)
    if not fits:
        raise ValueError(
            "write a Specific Character Set, as 'ISO_IR 192' or 'ISO 2022 IR 6\\ISO 2022 IR 87'"
        )
    return value


Charset = Annotated[str, AfterValidator(parse_charset)]


_parsed: Final = lru_cache(maxsize=4096)(ip_network)


class DicomPeer(Section):
    """
    A DICOM application that may open associations, such as a modality.

    Steps without a station or location are shown to all peers.
    """

    ae_title: Title = Field(description="AE title that it calls itself")
    enabled: bool = Field(True, description="whether it may open associations and use /dicomweb")
    addresses: list[Network] = Field(
        min_length=1, description='its addresses and networks, as "10.1.0.0/16"'
    )
    may: list[Literal["worklist", "performed", "store", "commitment"]] = Field(
        ["worklist"],
        min_length=1,
        description="worklist, performed (MPPS), store (structured reports, key objects), "
        "commitment (answers of a PACS)",
    )
    sites: list[str] = Field(["*"], min_length=1, description="sites that it sees; *: all")
    modalities: list[str] = Field(
        default_factory=list, description="modalities of the steps that it sees; empty: all"
    )
    stations: list[Title] = Field(
        default_factory=list, description="scheduled stations of these steps; empty: all"
    )
    locations: list[str] = Field(
        default_factory=list, description="scheduled locations of these steps; empty: all"
    )
    charset: Charset = Field(
        "",
        description="character set of the answers, and of queries without one; empty: that of the "
        "query, if it suffices",
    )
    max_answers: int = Field(1000, ge=1, le=100_000, description="steps in the answer to a query")
    on_limit: Literal["first", "refuse"] = Field(
        "first", description="first | refuse (A700): the answer to a query with more steps"
    )
    token_file: Path | None = Field(
        None, description="file with the token of /dicomweb; unset: it may not use /dicomweb"
    )

    @property
    def name(self) -> str:
        """The AE title, which names the peer as other connections are named."""
        return self.ae_title

    def permits(self, address: IPv4Address | IPv6Address | None) -> bool:
        """True if the peer may connect from an address."""
        return address is not None and any(
            address in _parsed(network) for network in self.addresses
        )


class DicomSettings(Section):
    """DICOM: modality worklist, performed procedure steps, objects."""

    bind: HostPort | None = Field(None, description="host:port; unset: no DICOM")
    ae_title: Title = Field("REPORT_BRIDGE", description="AE title that peers must call")
    tls: ListenerTLS | None = Field(None, description="TLS; empty: unencrypted")
    worklist: str = Field(
        "worklist", min_length=1, description="definition that makes an order's procedure steps"
    )
    steps_expire: Seconds = Field(
        30 * 86_400.0,
        description="time after its start and its last change until a step that nobody ended "
        "leaves the worklist; 0: never",
    )
    max_associations: int = Field(
        100, ge=1, le=MAX_ASSOCIATIONS, description="associations at a time; each has two threads"
    )
    max_associations_per_source: int = Field(
        20, ge=1, le=MAX_ASSOCIATIONS, description="associations of one address (IPv6: /64)"
    )
    request_timeout: Seconds = Field(
        10.0, gt=0, le=300, description="time from the connection to the request of an association"
    )
    idle_timeout: Seconds = Field(
        60.0, gt=0, le=86_400, description="time without a byte until an association is ended"
    )
    message_timeout: Seconds = Field(
        60.0, gt=0, le=3600, description="time from the first to the last fragment of a message"
    )
    max_pdu: Bytes = Field(64 * 2**10, ge=4 * 2**10, le=2**20, description="largest PDU received")
    max_identifier: Bytes = Field(
        64 * 2**10, ge=2**10, le=16 * 2**20, description="largest identifier of a query"
    )
    max_object: Bytes = Field(
        64 * 2**20, ge=2**16, le=2**30, description="largest object, and data set of a step"
    )
    object_memory: Bytes = Field(
        256 * 2**20,
        ge=2**20,
        description="data sets above max_identifier without an answer yet; more are refused",
    )
    peer: list[DicomPeer] = Field(default_factory=list, description="applications, by AE title")

    @model_validator(mode="after")
    def _titles_are_unique(self) -> "DicomSettings":
        titles = [peer.ae_title for peer in self.peer]
        for at, title in enumerate(titles):
            if title in titles[:at]:
                place = ("dicom", "peer", at, "ae_title")
                text = "{title} is used more than once"
                raise PydanticCustomError("peer", text, {"loc": place, "title": title})
        return self

    @model_validator(mode="after")
    def _limits_fit(self) -> "DicomSettings":
        if self.object_memory < self.max_object:
            raise ValueError("object_memory: less than max_object")
        return self
