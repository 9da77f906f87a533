"""An OpenID Connect provider on a real socket, with optional wrong claims."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey
from typing_extensions import override

CLIENT, SECRET = "bridge", "client secret"


@cache
def _signing_key() -> RSAKey:
    return RSAKey.generate_key(2048, auto_kid=True)


@dataclass
class IdentityProvider:
    """A provider that authenticates `email`; `wrong_claims` replace the right ones."""

    issuer: str = ""
    email: str = "ada@example.org"
    verified: bool = True
    wrong_claims: dict[str, Any] = field(default_factory=dict)
    claimed_issuer: str = ""
    by_userinfo: bool = False
    responses: dict[str, bytes] = field(default_factory=dict)
    """Bodies by path, instead of the right ones."""
    key: RSAKey = field(default_factory=_signing_key)
    signing: RSAKey | None = None
    attempts: dict[str, dict[str, str]] = field(default_factory=dict)

    def description(self) -> dict[str, Any]:
        return {
            "issuer": self.claimed_issuer or self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
        }

    def authorize(self, query: dict[str, str]) -> str:
        """Authenticate the user; return the address of the redirect."""
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self.attempts[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Exchange a code once, if the verifier and the client secret are right."""
        query = self.attempts.pop(form["code"], None)
        challenge = hashlib.sha256(form["code_verifier"].encode()).digest()
        known = base64.b64encode(f"{CLIENT}:{quote_plus(SECRET)}".encode()).decode()
        if query is None or authorization != f"Basic {known}":
            return None
        if query["code_challenge"] != base64.urlsafe_b64encode(challenge).decode().rstrip("="):
            return None
        now = int(time.time())
        identity = {} if self.by_userinfo else self.user()
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 60,
            "sub": "4711",
            "nonce": query["nonce"],
            **identity,
            **self.wrong_claims,
        }
        header = {"alg": "RS256", "kid": self.key.kid}
        signed = jwt.encode(header, claims, self.signing or self.key)
        return {"access_token": "access", "token_type": "Bearer", "id_token": signed}

    def user(self) -> dict[str, Any]:
        return {"email": self.email, "email_verified": self.verified}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    provider = IdentityProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", provider.authorize(query))
                self.end_headers()
                return
            responses: dict[str, Any] = {
                "/.well-known/openid-configuration": provider.description(),
                "/keys": {"keys": [provider.key.as_dict(private=False)]},
                "/userinfo": {"sub": "4711", **provider.user()},
            }
            self._respond(responses.get(parts.path), parts.path)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._respond(provider.token(form, self.headers.get("Authorization", "")))

        def _respond(self, response: dict[str, Any] | None, path: str = "") -> None:
            data = json.dumps(response or {"error": "invalid_grant"}).encode()
            data = provider.responses.get(path, data)
            self.send_response(200 if response else 400)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Do not log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
