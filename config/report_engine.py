"""
Settings of the internal report engine: rates, sizes, lifetimes, and sign-in.

The lifetime of session links is fixed: the interface reference gives them five minutes.
"""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from config.addresses import web_address
from config.quantities import Bytes, Seconds
from config.sections import Section


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
