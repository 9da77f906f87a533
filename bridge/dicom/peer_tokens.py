"""
The tokens of DICOM peers for /dicomweb: whose token it is, and how often addresses may fail.

Token files are read again when they change. While a file cannot be read, its last token stays in
use.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from bridge.network_source import parse_address, source_of
from bridge.quotas import FAILURE_SECONDS, Allowance, Quota, QuotaMeter
from config import Settings, SettingsError
from config.dicom import DicomPeer
from config.secret_files import WatchedToken

_POLICY = "authentication"


class PeerTokens:
    """Finds the peer of a token. On one thread."""

    def __init__(self, settings: Settings, peers: Sequence[DicomPeer]) -> None:
        """Read the tokens of enabled peers. Raises SettingsError."""
        self._path = settings.path
        self._quota = Quota(settings.rates.failed_authentications, FAILURE_SECONDS)
        self._failures = QuotaMeter()
        self._log = structlog.get_logger("dicom")
        self._peers: Sequence[DicomPeer] = ()
        self._tokens: Mapping[str, WatchedToken] = {}
        wanted = [peer for peer in peers if _may_use(peer)]
        self._use(wanted, {peer.ae_title: self._read(peer) for peer in wanted})

    def use_peers(self, peers: Sequence[DicomPeer]) -> None:
        """Use other peers from now on; those without a readable token are logged and left out."""
        found, wanted = {}, [peer for peer in peers if _may_use(peer)]
        for peer in wanted:
            try:
                found[peer.ae_title] = self._read(peer)
            except SettingsError as error:
                self._log.error("token not read", connection=peer.ae_title, reason=str(error))
        self._use([peer for peer in wanted if peer.ae_title in found], found)

    def find(self, token: str, address: str) -> DicomPeer | None:
        """Return the peer of a token that may use it from this address."""
        given, found = _digest(token), None
        for peer in self._peers:
            own = _digest(self._tokens[peer.ae_title].token)
            if hmac.compare_digest(own, given) and peer.permits(parse_address(address)):
                found = peer
        return found

    def blocked(self, address: str) -> Allowance | None:
        """Return the quota of an address that has failed too often; None for another."""
        allowance = self._failures.peek(_POLICY, source_of(address), self._quota)
        return None if allowance is None or allowance.granted else allowance

    def count_failure(self, address: str) -> None:
        """Count a token that is not that of a peer against an address; loopback has no limit."""
        parsed = parse_address(address)
        if parsed is None or not parsed.is_loopback:
            self._failures.take(_POLICY, source_of(address), self._quota)

    def _read(self, peer: DicomPeer) -> WatchedToken:
        path = self._path(peer.token_file or Path())
        known = self._tokens.get(peer.ae_title)
        return known if known is not None and known.path == path else WatchedToken(path)

    def _use(self, peers: Sequence[DicomPeer], tokens: Mapping[str, WatchedToken]) -> None:
        self._peers, self._tokens = peers, tokens


def _may_use(peer: DicomPeer) -> bool:
    return peer.enabled and peer.token_file is not None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
