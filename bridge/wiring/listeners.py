"""Listeners from settings: definitions, policy, certificates, validation."""

from dataclasses import replace
from functools import partial

import structlog

from bridge.errors import BridgeError
from bridge.intake.receive.listener_policy import (
    ListenerPolicy,
    VersionFinder,
    no_earlier_version,
)
from bridge.intake.receive.patient_check import PatientCheck
from bridge.intake.validation.profiles import load_profile
from bridge.intake.validation.structure import validate
from bridge.intake.validation.validator import Validator
from bridge.metrics import Metrics
from bridge.store.database import Database
from bridge.store.records.unmapped_codes import OnUnmappedCodes, ignore_unmapped_codes
from bridge.wiring.active_settings import SourceFinder, file_sources
from config import Settings
from config.listeners import Acknowledge, ListenerSettings, ListenerTLS, Validation
from mappings.compiler import compile_sources
from mappings.hl7.charset import is_codec
from mappings.inbound.definition import InboundMapping
from mllp.errors import TLSConfigurationError
from mllp.tls import ReloadingServerOptions, server_options


class NotInbound(BridgeError):
    """A listener uses a definition that does not read messages."""

    def __init__(self, listener: str, mapping: str) -> None:
        super().__init__(f"listener {listener}: {mapping} is not a mapping of incoming messages")


class UnknownCharset(BridgeError):
    def __init__(self, listener: str) -> None:
        super().__init__(f"listener {listener}: charset is not supported")


def make_listeners(
    settings: Settings,
    find: SourceFinder | None = None,
    find_version: VersionFinder = no_earlier_version,
    on_unmapped_codes: OnUnmappedCodes = ignore_unmapped_codes,
) -> dict[str, ListenerPolicy]:
    """
    Compile the listeners' definitions from the sources of `find`, by default the files on disk.

    `find_version` returns the versions of stored messages; `on_unmapped_codes` is called with
    unmapped codes. Raises MappingErrors, NotInbound, UnknownCharset.
    """
    compiled = [_make_policy(settings, each, find) for each in settings.listener]
    return {
        each.name: replace(each, find_version=find_version, on_unmapped_codes=on_unmapped_codes)
        for each in compiled
    }


def _make_policy(
    settings: Settings, listener: ListenerSettings, find: SourceFinder | None
) -> ListenerPolicy:
    return ListenerPolicy(
        name=listener.name,
        definitions=compile_inbound(settings, listener, find),
        site=listener.site,
        time_zone=listener.time_zone,
        acknowledge=listener.acknowledge,
        reuse=listener.reused_control_id,
        processing_ids=frozenset(listener.processing_ids),
        charset=listener.charset,
        replies=listener.replies,
        merged=listener.merged_patients,
        patient_conflict=listener.patient_conflict,
        commit_blocks=listener.commit_blocks,
    )


def compile_inbound(
    settings: Settings, listener: ListenerSettings, find: SourceFinder | None = None
) -> tuple[InboundMapping, ...]:
    """Compile a listener's definitions. Raises MappingErrors, NotInbound, UnknownCharset."""
    find = find or file_sources(settings)
    compiled = [compile_sources(find(name), name) for name in listener.mappings]
    for name, each in zip(listener.mappings, compiled, strict=True):
        if not isinstance(each, InboundMapping):
            raise NotInbound(listener.name, name)
    if not is_codec(listener.charset):
        raise UnknownCharset(listener.name)
    return tuple(each for each in compiled if isinstance(each, InboundMapping))


def tls_options(settings: Settings, tls: ListenerTLS) -> ReloadingServerOptions:
    """Read a listener's certificates and key. Raises TLSConfigurationError."""
    client_ca = settings.path(tls.client_ca) if tls.client_ca else None
    certificate, key = settings.path(tls.certificate), settings.path(tls.key)
    crl = settings.path(tls.client_crl) if tls.client_crl else None
    make = partial(server_options, certificate, key, client_ca, crl)
    files = [file for file in (certificate, key, client_ca, crl) if file]
    return ReloadingServerOptions(make, files, log_reload_failure)


def log_reload_failure(error: TLSConfigurationError) -> None:
    """Log that the previous certificates stay in use."""
    structlog.get_logger("tls").error("new TLS files cannot be used", setting=error.setting)


def validator(settings: Settings, listener: ListenerSettings, metrics: Metrics) -> Validator | None:
    """Return the validator of a listener, or None. Raises ProfileUnusable."""
    if listener.validation is Validation.OFF:
        return None
    file = listener.profile
    profile = None if file is None else load_profile(settings.path(file))
    validate_payload = partial(validate, profile=profile, fallback=listener.charset)
    return Validator(
        listener.name, validate_payload, metrics, refuse=listener.validation is Validation.REFUSE
    )


def merged_patient_check(policy: ListenerPolicy, database: Database) -> PatientCheck | None:
    """Return the check for merged patients; None if the listener only stores."""
    checks = policy.acknowledge is not Acknowledge.STORED
    return PatientCheck(policy, database) if checks else None
