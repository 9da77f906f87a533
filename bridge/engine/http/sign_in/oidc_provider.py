"""An OpenID Connect provider: the only module that uses authlib.

Authorization code flow with PKCE; the ID token's signature, issuer, audience, nonce and times are
checked. Knows no account of ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus

import httpx
from authlib.common.security import generate_token
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from bridge.engine.settings import SingleSignOn


class SignOnFailed(Exception):  # noqa: N818  # named for what happened
    """Nobody was told apart; `code` says why, and never who it was."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class SignOnAttempt:
    """What must come back as it went: one attempt of one browser."""

    redirect: str
    state: str
    nonce: str
    verifier: str


_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""Signatures with a key that only the provider has; a shared secret would let us forge one."""
_LEEWAY: Final = 120  # seconds that clocks may differ
_TIMEOUT: Final = 10.0
_DESCRIPTION: Final = "/.well-known/openid-configuration"
_AWAY: Final = "provider_unreachable"
_VERIFIER: Final = 64


class Provider:
    """Reads the provider's own description once, and its keys again when one is unknown."""

    def __init__(self, settings: SingleSignOn) -> None:
        self._settings = settings
        self._described: Mapping[str, Any] | None = None
        self._keys: KeySet | None = None

    async def begin(self, redirect: str, *, again: bool = False) -> tuple[str, SignOnAttempt]:
        """
        Give the address to send a browser to. Raises SignOnFailed.

        `again`: the provider asks for the credentials whoever is signed in there.
        """
        begun = SignOnAttempt(redirect, *(generate_token(_VERIFIER) for _ in range(3)))
        described = await self._description()
        address = prepare_grant_uri(
            described["authorization_endpoint"],
            self._settings.client_id,
            "code",
            redirect,
            self._settings.scopes,
            begun.state,
            nonce=begun.nonce,
            code_challenge=create_s256_code_challenge(begun.verifier),
            code_challenge_method="S256",
            **({"prompt": "login", "max_age": "0"} if again else {}),
        )
        return str(address), begun

    async def email(
        self, begun: SignOnAttempt, code: str, *, again_since: int | None = None
    ) -> str:
        """
        Exchange the code and give the e-mail address that is vouched for.

        `again_since`: the provider must have asked for the credentials since that second.
        """
        token = await self._exchanged(begun, code)
        claims = await self._claims(token, begun)
        if again_since is not None and _asked_at(claims) < again_since - _LEEWAY:
            raise SignOnFailed("not_asked_again")
        return self._vouched(await self._completed(str(token.get("access_token")), claims))

    async def _exchanged(self, begun: SignOnAttempt, code: str) -> dict[str, Any]:
        wanted, described = self._settings, await self._description()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": wanted.client_id,
            "redirect_uri": begun.redirect,
            "code_verifier": begun.verifier,
        }
        # RFC 6749 §2.3.1: both are encoded as a form's values before they are joined.
        named = httpx.BasicAuth(quote_plus(wanted.client_id), quote_plus(wanted.client_secret))
        proof = {"auth": named} if wanted.client_secret else {}
        return await self._ask(
            "POST", described["token_endpoint"], "code_refused", data=form, **proof
        )

    async def _description(self) -> Mapping[str, Any]:
        if self._described is None:
            found = await self._ask("GET", f"{self._settings.issuer}{_DESCRIPTION}", _AWAY)
            named = all(
                isinstance(found.get(each), str)
                for each in ("authorization_endpoint", "token_endpoint", "jwks_uri")
            )
            # A provider that calls itself otherwise vouches for somebody else's people.
            if not named or str(found.get("issuer", "")).rstrip("/") != self._settings.issuer:
                raise SignOnFailed("provider_differs")
            self._described = found
        return self._described

    async def _ask(self, method: str, address: str, trouble: str, **more: Any) -> dict[str, Any]:
        """Ask the provider for a JSON object. Raises SignOnFailed with the trouble's code."""
        verify = self._settings.ca or True
        try:
            async with httpx.AsyncClient(
                timeout=_TIMEOUT, verify=verify, trust_env=False
            ) as client:
                response = await client.request(method, address, **more)
                found = response.raise_for_status().json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            raise SignOnFailed(trouble) from None
        if not isinstance(found, dict):
            raise SignOnFailed("provider_differs")
        return found

    async def _claims(self, token: Mapping[str, Any], begun: SignOnAttempt) -> dict[str, Any]:
        described, raw = await self._description(), str(token.get("id_token", ""))
        try:
            read = await self._decoded(raw)
            claims = CodeIDToken(
                read.claims,
                read.header,
                {
                    "iss": {"essential": True, "value": described["issuer"]},
                    "aud": {"essential": True, "value": self._settings.client_id},
                    "sub": {"essential": True},
                    "exp": {"essential": True},
                },
                {
                    "nonce": begun.nonce,
                    "client_id": self._settings.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(leeway=_LEEWAY)
        except (JoseError, ValueError, KeyError, TypeError):
            raise SignOnFailed("token_not_valid") from None
        return dict(claims)

    async def _decoded(self, raw: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
        if self._keys is not None:
            try:
                return jwt.decode(raw, self._keys, registry=registry)
            except (InvalidKeyIdError, ValueError):
                self._keys = None  # the provider may have exchanged them
        described = await self._description()
        found: Any = await self._ask("GET", str(described["jwks_uri"]), _AWAY)
        self._keys = KeySet.import_key_set(found)
        return jwt.decode(raw, self._keys, registry=registry)

    async def _completed(self, access: str, claims: dict[str, Any]) -> dict[str, Any]:
        """Ask for what the ID token leaves out; it must be about the same person."""
        address = (await self._description()).get("userinfo_endpoint")
        if self._settings.email_claim in claims or not isinstance(address, str):
            return claims
        bearer = {"Authorization": f"Bearer {access}"}
        more = await self._ask("GET", address, _AWAY, headers=bearer)
        if more.get("sub") != claims["sub"]:
            raise SignOnFailed("token_not_valid")
        return {**more, **claims}

    def _vouched(self, claims: Mapping[str, Any]) -> str:
        email = claims.get(self._settings.email_claim)
        if not isinstance(email, str) or "@" not in email:
            raise SignOnFailed("no_email")
        if self._settings.verified_only and claims.get("email_verified") not in {True, "true"}:
            raise SignOnFailed("email_not_verified")
        return email


def _asked_at(claims: Mapping[str, Any]) -> float:
    """Return when the provider asked for the credentials (OpenID Connect Core, 2: auth_time)."""
    asked = claims.get("auth_time")
    return float(asked) if isinstance(asked, int | float) else 0.0
