"""Access tokens of an account."""

import secrets

import pytest

from bridge.engine.errors import EngineError
from bridge.engine.service.accounts.tokens import MAX_TOKENS, create_token, revoke_token
from tests.bridge.engine.service.harness import ServiceHarness


def test_valid_tokens_of_an_account_are_limited(harness: ServiceHarness) -> None:
    """Expired and revoked tokens do not count, and other accounts have their own limit."""
    with harness.database.write() as connection:

        def create(account: int, ends: int | None = None) -> int:
            key, _ = create_token(
                connection,
                account,
                now=harness.now,
                random_bytes=secrets.token_bytes,
                expires_at=ends,
            )
            return key

        create(harness.ann, harness.now - 1)
        last = [create(harness.ann) for _ in range(MAX_TOKENS)][-1]
        with pytest.raises(EngineError) as refused:
            create(harness.ann)
        assert (refused.value.code, refused.value.status) == ("too_many_tokens", 400)
        create(harness.bob)
        revoke_token(connection, last, harness.now)
        create(harness.ann)
