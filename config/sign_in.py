"""How people sign in to the report engine, and so to the console."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from config.addresses import web_address
from config.sections import Section

_EXAMPLE = "https://id.example.org/realm"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class OpenIDConnect(Section):
    """A provider that says who somebody is; accounts and roles stay ours."""

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
    """Accounts of our own with passwords, an OpenID Connect provider, or both."""

    passwords: bool = Field(True, description="false: by the provider alone")
    second_factor: Literal["required", "optional"] = Field(
        "required", description="one-time codes of accounts with a console role, without oidc"
    )
    oidc: OpenIDConnect | None = Field(
        None, description="also label, scopes, email_claim, verified_only, ca"
    )

    @model_validator(mode="after")
    def _somehow(self) -> "SignIn":
        if not self.passwords and self.oidc is None:
            raise ValueError("passwords: false needs oidc, or nobody comes in")
        return self
