"""TLS of listeners and destinations, from the files that their settings name."""

import ssl
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from config import Settings
from config.listeners import ListenerTLS
from config.quantities import FolderAddress, WebAddress
from config.sections import DestinationSettings
from mllp.errors import TLSConfigurationError
from mllp.tls import (
    ReloadingClientOptions,
    ReloadingOptions,
    ReloadingServerOptions,
    client_options,
    server_options,
)


def listener_tls_options(settings: Settings, tls: ListenerTLS) -> ReloadingServerOptions:
    """Read a listener's certificates and key. Raises TLSConfigurationError."""
    client_ca = settings.path(tls.client_ca) if tls.client_ca else None
    certificate, key = settings.path(tls.certificate), settings.path(tls.key)
    crl = settings.path(tls.client_crl) if tls.client_crl else None
    make = partial(server_options, certificate, key, client_ca, crl)
    files = [file for file in (certificate, key, client_ca, crl) if file]
    return ReloadingServerOptions(make, files, log_reload_failure)


def listener_tls_context(settings: Settings, tls: ListenerTLS) -> ReloadingOptions:
    """
    Return what makes the `ssl.SSLContext` of a listener, for sockets without Twisted.

    Raises TLSConfigurationError, also later on, as `listener_tls_options` does.
    """
    certificate, key = settings.path(tls.certificate), settings.path(tls.key)
    client_ca = settings.path(tls.client_ca) if tls.client_ca else None
    crl = settings.path(tls.client_crl) if tls.client_crl else None

    def make() -> ssl.SSLContext:
        server_options(certificate, key, client_ca, crl)  # its errors name the setting
        try:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(certificate, key)
            if client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
            if crl is not None:
                context.load_verify_locations(crl)
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        except (OSError, ValueError):
            raise TLSConfigurationError("certificate", "is refused by the TLS library") from None
        return context

    files = [file for file in (certificate, key, client_ca, crl) if file]
    return ReloadingOptions(make, files, log_reload_failure)


def log_reload_failure(error: TLSConfigurationError) -> None:
    """Log that the previous certificates stay in use."""
    structlog.get_logger("tls").error("new TLS files cannot be used", setting=error.setting)


def checked_tls_context(
    settings: Settings, destination: DestinationSettings
) -> ssl.SSLContext | None:
    destination_tls_options(settings, destination)  # its errors name the setting
    try:
        return tls_context(settings, destination)
    except (OSError, ValueError):
        raise TLSConfigurationError("tls", "is refused by the TLS library") from None


def tls_context(settings: Settings, destination: DestinationSettings) -> ssl.SSLContext | None:
    """
    Return the TLS context of a connection to a destination by HTTP or a check; None without TLS.

    Raises OSError or ValueError if a file of the settings cannot be read.
    """
    address, tls = destination.address, destination.tls
    if tls is None and not (isinstance(address, WebAddress) and address.secure):
        return None
    ca = None if tls is None or tls.ca is None else settings.path(tls.ca)
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls is not None and tls.crl is not None:
        context.load_verify_locations(settings.path(tls.crl))
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if tls is not None and tls.certificate is not None:
        key = None if tls.key is None else settings.path(tls.key)
        context.load_cert_chain(settings.path(tls.certificate), key)
    return context


def tls_files_of(settings: Settings, destination: DestinationSettings) -> list[Path]:
    tls = destination.tls
    named = () if tls is None else (tls.ca, tls.certificate, tls.key, tls.crl)
    return [settings.path(file) for file in named if file is not None]


def destination_tls_options(settings: Settings, destination: DestinationSettings) -> Any:
    """Read the TLS files of a destination; None without TLS. Raises TLSConfigurationError."""
    address = destination.address
    if isinstance(address, FolderAddress):
        return None
    if destination.tls is None:
        secure = isinstance(address, WebAddress) and address.secure
        return client_options(None, None, None, address.host) if secure else None
    tls = destination.tls
    named = (tls.ca, tls.certificate, tls.key, tls.crl)
    ca, certificate, key, crl = [None if file is None else settings.path(file) for file in named]
    make = partial(client_options, ca, certificate, key, tls.server_name or address.host, crl)
    return ReloadingClientOptions(make, tls_files_of(settings, destination), log_reload_failure)
