"""
Client of an OpenID Connect provider: authorization code flow with PKCE.

Checks signature, issuer, audience, nonce and times of the ID token. It does not access accounts.
Only this module uses authlib.
"""

import ssl
import time
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

from bridge.email import is_same_mailbox
from bridge.engine.http.outgoing_requests import RequestFailed, request_object
from bridge.engine.settings import SingleSignOn


class SignOnFailed(Exception):
    """The provider did not authenticate a user; `code` is the cause and names no user."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class SignOnAttempt:
    """One sign-in attempt of one browser; the values must return unchanged."""

    redirect: str
    state: str
    nonce: str
    verifier: str


_ALGORITHMS: Final = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""Asymmetric algorithms only: with a shared secret the client could forge a token."""
_LEEWAY: Final = 120  # seconds of clock difference
_TIMEOUT_SECONDS: Final = 10.0
_METADATA_PATH: Final = "/.well-known/openid-configuration"
_UNREACHABLE: Final = "provider_unreachable"
_VERIFIER_LENGTH: Final = 64
_MAX_KEYS: Final = 200


class OidcProvider:
    """
    The configured provider.

    Its metadata is loaded once, its keys are loaded again for an unknown key id.
    """

    def __init__(self, settings: SingleSignOn) -> None:
        self._settings = settings
        self._metadata_cache: Mapping[str, Any] | None = None
        self._keys: KeySet | None = None
        self._tls: ssl.SSLContext | None = None

    async def begin(self, redirect: str, *, force_login: bool = False) -> tuple[str, SignOnAttempt]:
        """
        Return the address to redirect the browser to, and the attempt; raise SignOnFailed.

        `force_login`: the provider asks for the credentials even in an open session.
        """
        attempt = SignOnAttempt(redirect, *(generate_token(_VERIFIER_LENGTH) for _ in range(3)))
        metadata = await self._metadata()
        address = prepare_grant_uri(
            metadata["authorization_endpoint"],
            self._settings.client_id,
            "code",
            redirect,
            self._settings.scopes,
            attempt.state,
            nonce=attempt.nonce,
            code_challenge=create_s256_code_challenge(attempt.verifier),
            code_challenge_method="S256",
            **({"prompt": "login", "max_age": "0"} if force_login else {}),
        )
        return str(address), attempt

    async def email(
        self, attempt: SignOnAttempt, code: str, *, authenticated_since: int | None = None
    ) -> str:
        """
        Exchange the code; return the e-mail address of the ID token; raise SignOnFailed.

        `authenticated_since`: the provider must have asked for the credentials since (seconds).
        """
        token = await self._exchange_code(attempt, code)
        claims = await self._claims(token, attempt)
        if authenticated_since is not None and not _is_authenticated(claims, authenticated_since):
            raise SignOnFailed("not_asked_again")
        return self._email_of(await self._with_userinfo(str(token.get("access_token")), claims))

    async def _exchange_code(self, attempt: SignOnAttempt, code: str) -> dict[str, Any]:
        settings, metadata = self._settings, await self._metadata()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": settings.client_id,
            "redirect_uri": attempt.redirect,
            "code_verifier": attempt.verifier,
        }
        # RFC 6749 §2.3.1: both are encoded as a form's values before they are joined.
        credentials = httpx.BasicAuth(
            quote_plus(settings.client_id), quote_plus(settings.client_secret)
        )
        client_auth = {"auth": credentials} if settings.client_secret else {}
        return await self._fetch_json(
            "POST", metadata["token_endpoint"], "code_refused", data=form, **client_auth
        )

    async def _metadata(self) -> Mapping[str, Any]:
        if self._metadata_cache is None:
            found = await self._fetch_json(
                "GET", f"{self._settings.issuer}{_METADATA_PATH}", _UNREACHABLE
            )
            is_complete = all(
                isinstance(found.get(name), str)
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
            )
            # The issuer must match (OpenID Connect Discovery 4.3).
            if not is_complete or str(found.get("issuer", "")).rstrip("/") != self._settings.issuer:
                raise SignOnFailed("provider_differs")
            self._metadata_cache = found
        return self._metadata_cache

    async def _fetch_json(
        self, method: str, address: str, failure_code: str, **more: Any
    ) -> dict[str, Any]:
        """Request a JSON object from the provider; raise SignOnFailed with `failure_code`."""
        if self._tls is None:  # loading the CA certificates takes 20 ms
            self._tls = httpx.create_ssl_context(verify=self._settings.ca or True, trust_env=False)
        try:
            return await request_object(
                method, address, seconds=_TIMEOUT_SECONDS, tls=self._tls, **more
            )
        except RequestFailed:
            raise SignOnFailed(failure_code) from None

    async def _claims(self, token: Mapping[str, Any], attempt: SignOnAttempt) -> dict[str, Any]:
        metadata, raw = await self._metadata(), str(token.get("id_token", ""))
        try:
            id_token = await self._decode(raw)
            claims = CodeIDToken(
                id_token.claims,
                id_token.header,
                {
                    "iss": {"essential": True, "value": metadata["issuer"]},
                    "aud": {"essential": True, "value": self._settings.client_id},
                    "sub": {"essential": True},
                    "exp": {"essential": True},
                },
                {
                    "nonce": attempt.nonce,
                    "client_id": self._settings.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(leeway=_LEEWAY)
        except (JoseError, ValueError, KeyError, TypeError):
            raise SignOnFailed("token_not_valid") from None
        return dict(claims)

    async def _decode(self, raw: str) -> jwt.Token:
        registry = JWSRegistry(algorithms=_ALGORITHMS, strict_check_header=False)
        if self._keys is not None:
            try:
                return jwt.decode(raw, self._keys, registry=registry)
            except (InvalidKeyIdError, ValueError):
                self._keys = None  # the provider may have rotated its keys
        metadata = await self._metadata()
        found: Any = await self._fetch_json("GET", str(metadata["jwks_uri"]), _UNREACHABLE)
        if len(found.get("keys", ())) > _MAX_KEYS:
            raise SignOnFailed("provider_differs")
        self._keys = KeySet.import_key_set(found)
        return jwt.decode(raw, self._keys, registry=registry)

    async def _with_userinfo(self, access: str, claims: dict[str, Any]) -> dict[str, Any]:
        """Add claims of the userinfo endpoint; its `sub` must be the one of the ID token."""
        address = (await self._metadata()).get("userinfo_endpoint")
        if self._settings.email_claim in claims or not isinstance(address, str):
            return claims
        bearer = {"Authorization": f"Bearer {access}"}
        more = await self._fetch_json("GET", address, _UNREACHABLE, headers=bearer)
        if more.get("sub") != claims["sub"]:
            raise SignOnFailed("token_not_valid")
        return {**more, **claims}

    def _email_of(self, claims: Mapping[str, Any]) -> str:
        email = claims.get(self._settings.email_claim)
        if not isinstance(email, str) or not is_same_mailbox(email):
            raise SignOnFailed("no_email")
        if self._settings.verified_only and claims.get("email_verified") not in (True, "true"):
            raise SignOnFailed("email_not_verified")
        return email


def _is_authenticated(claims: Mapping[str, Any], since: int) -> bool:
    """True if the claim auth_time (OpenID Connect Core, 2) is between `since` and now."""
    auth_time = claims.get("auth_time")
    if not isinstance(auth_time, int | float):
        return False
    return since - _LEEWAY <= auth_time <= time.time() + _LEEWAY
