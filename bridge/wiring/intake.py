"""Listeners from settings: their definitions, their policy, their certificates."""

import secrets
from dataclasses import replace
from functools import partial
from itertools import count

import structlog

from bridge.errors import BridgeError
from bridge.intake.listening import (
    Acknowledge,
    Listening,
    Merged,
    Missing,
    PatientConflict,
    Recall,
    Replies,
    Reuse,
    forgotten,
    unmoved,
)
from bridge.wiring.shelf import Find, files_of
from config import Settings
from config.listeners import Listener, ListenerTLS
from mappings.compiler import compile_sources
from mappings.hl7.charset import is_codec
from mappings.inbound import InboundMapping
from mllp.errors import TLSConfigurationError
from mllp.reloading import ReloadingServer
from mllp.tls import server_options

_MOST_COUNTED = 0xFFFFFF


class WrongKind(BridgeError):  # noqa: N818  # named for what happened
    """A listener names a definition that reads no messages."""

    def __init__(self, listener: str, mapping: str) -> None:
        super().__init__(f"listener {listener}: {mapping} is not a mapping of incoming messages")


class UnknownCharset(BridgeError):  # noqa: N818  # named for what happened
    """A listener names a charset that messages cannot be read in."""

    def __init__(self, listener: str) -> None:
        super().__init__(f"listener {listener}: charset is none that messages can be read in")


def listenings(
    settings: Settings,
    find: Find | None = None,
    recall: Recall = forgotten,
    missing: Missing = unmoved,
) -> dict[str, Listening]:
    """
    Compile what each listener reads with: what `find` gives, or the files of HOME.

    `recall` gives the versions that messages began with, `missing` is told of codes without an
    entry. Raises MappingErrors, WrongKind.
    """
    made = [_listening(settings, each, find) for each in settings.listener]
    return {each.name: replace(each, recall=recall, missing=missing) for each in made}


def _listening(settings: Settings, listener: Listener, find: Find | None) -> Listening:
    return Listening(
        name=listener.name,
        definitions=compiled(settings, listener, find),
        site=listener.site,
        time_zone=listener.time_zone,
        acknowledge=Acknowledge(listener.acknowledge.value),
        reuse=Reuse(listener.reused_control_id.value),
        processing_ids=frozenset(listener.processing_ids),
        charset=listener.charset,
        replies=Replies(listener.replies.value),
        merged=Merged(listener.merged_patients.value),
        patient_conflict=PatientConflict(listener.patient_conflict.value),
        commit_blocks=listener.commit_blocks,
    )


def compiled(
    settings: Settings, listener: Listener, find: Find | None = None
) -> tuple[InboundMapping, ...]:
    """Compile a listener's definitions, in their order. Raises MappingErrors, WrongKind."""
    find = find or files_of(settings)
    made = [compile_sources(find(name), name) for name in listener.mappings]
    for name, each in zip(listener.mappings, made, strict=True):
        if not isinstance(each, InboundMapping):
            raise WrongKind(listener.name, name)
    if not is_codec(listener.charset):
        raise UnknownCharset(listener.name)
    return tuple(each for each in made if isinstance(each, InboundMapping))


def tls_options(settings: Settings, tls: ListenerTLS) -> ReloadingServer:
    """Read a listener's certificates and key. Raises TLSConfigurationError."""
    client_ca = settings.path(tls.client_ca) if tls.client_ca else None
    certificate, key = settings.path(tls.certificate), settings.path(tls.key)
    crl = settings.path(tls.client_crl) if tls.client_crl else None
    make = partial(server_options, certificate, key, client_ca, crl)
    files = [file for file in (certificate, key, client_ca, crl) if file]
    return ReloadingServer(make, files, not_reloaded)


def not_reloaded(error: TLSConfigurationError) -> None:
    """Say that the old certificates stay in use."""
    structlog.get_logger("tls").error("new files not used", setting=error.setting)


class ControlIds:
    """
    Gives control ids of our own: 20 characters, never given before.

    A random beginning and a count: to ask the system for randomness each time costs as much
    as to build the acknowledgment.
    """

    def __init__(self) -> None:
        self._begin()

    def __call__(self) -> str:
        """Give the next."""
        number = next(self._count)
        if number > _MOST_COUNTED:
            self._begin()
            number = next(self._count)
        return f"{self._beginning}{number:06x}"

    def _begin(self) -> None:
        self._beginning = f"RB{secrets.token_hex(6)}"
        self._count = count()
