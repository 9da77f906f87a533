"""
Settings of the engine, as frozen values.

This module reads no file and no environment. The composition root passes a complete
`EngineSettings` to `bridge.engine.http.engine_application.create_application`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bridge.quotas import FAILURE_SECONDS, Quota

MIB = 2**20


@dataclass(frozen=True, slots=True)
class RateLimits:
    """
    Quotas per token (reads, launches, exports) and per address (failed authentications).

    Service tokens are exempt, because the bridge limits its own rate. Loopback addresses are exempt
    from the quota of failed token authentications: behind an undeclared proxy all clients have that
    address. Sign-in attempts are limited for every address (`service.accounts.sign_in_limit`).
    """

    reads: Quota = field(default_factory=lambda: Quota(6000))
    launches: Quota = field(default_factory=lambda: Quota(1200))
    exports: Quota = field(default_factory=lambda: Quota(600))
    failed_authentications: Quota = field(default_factory=lambda: Quota(20, FAILURE_SECONDS))


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Sizes in bytes (decoded) and counts; larger requests are refused with 413 or 400."""

    body: int = 64 * MIB
    structured_reports: int = 20
    structured_report: int = 10 * MIB
    key_images: int = 50
    key_image: int = 10 * MIB
    key_image_pixels: int = 40_000_000
    key_findings: int = 100_000
    metadata: int = 64 * 1024
    metadata_depth: int = 8
    tag: int = 1024
    status_list: int = 500
    link_list: int = 50
    batch: int = 500
    recording: int = 24 * MIB


@dataclass(frozen=True, slots=True)
class AccessLifetimes:
    """Lifetimes of links and sessions, in seconds (a site may override `frame_link`)."""

    frame_link: int = 12 * 3600
    login_link: int = 90 * 24 * 3600
    session_link: int = 5 * 60  # interface reference, Limits: 5 minutes from issue
    enrolment_link: int = 72 * 3600
    session: int = 12 * 3600
    session_idle: int = 30 * 60


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """
    An OpenAI-compatible endpoint: its URL, the model's name, and the key if there is one.

    `seconds` is the time limit of one request.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class WritingAids:
    """
    The models that help to write: `transcription` recognizes speech, `placing` sorts findings into
    sections. Without them, the browser recognizes speech, and rules sort the findings.

    `browser_speech` permits pages to use the browser's recognizer, which may send speech to its
    vendor.
    """

    transcription: ModelEndpoint | None = None
    placing: ModelEndpoint | None = None
    browser_speech: bool = True


@dataclass(frozen=True, slots=True)
class SingleSignOn:
    """
    An OpenID Connect provider: `issuer` is its identifier without a trailing slash.

    `label` is the text of the button; `ca` is a file with CA certificates, '' for the system's.
    """

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    label: str = "Single sign-on"
    scopes: str = "openid email"
    email_claim: str = "email"
    verified_only: bool = True
    ca: str = ""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """
    The engine's settings for one installation.

    `link_keys` is the key ring of sealed links, newest first: (key id, 32 bytes).
    `changed_link_keys` returns the ring if it was rotated since the last call, otherwise None.
    `regional_urls` are further public addresses; a link has the address at which its request
    arrived. `trusted_proxies` are networks (`10.0.0.0/8`) whose forwarding headers are trusted.
    `service_token`, if given, becomes a token that administers every site. `threads` limits the
    concurrent database work.
    """

    link_keys: tuple[tuple[str, bytes], ...] = field(repr=False)
    changed_link_keys: Callable[[], Sequence[tuple[str, bytes]] | None] = field(
        default=lambda: None, repr=False
    )
    public_url: str = "http://127.0.0.1:8575"
    regional_urls: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    service_token: str | None = field(default=None, repr=False)
    browser_init: bool = True  # GET /reporting/init, which has a token in its URL
    threads: int = 8
    rates: RateLimits = RateLimits()
    sizes: SizeLimits = SizeLimits()
    lifetimes: AccessLifetimes = AccessLifetimes()
    assistance: WritingAids = WritingAids()
    single_sign_on: SingleSignOn | None = None
    passwords: bool = True  # users may sign in with a password that the engine stores
    second_factor: bool = (
        True  # required for accounts with a console role, unless a provider is used
    )

    @property
    def asks_for_codes(self) -> bool:
        """Whether an account with a console role must have one-time codes."""
        return self.second_factor and self.passwords and self.single_sign_on is None
