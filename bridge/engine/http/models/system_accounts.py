"""Bodies of the endpoints for accounts across all sites."""

# ruff: noqa: N815  # the spelling of the interface document

from pydantic import StrictBool

from bridge.engine.http.models.fields import Body, Identifier


class AccountBody(Body):
    """An account by its id."""

    accountId: Identifier


class EnrolmentBody(AccountBody):
    """An account whose owner is to set a password anew."""

    secondFactor: StrictBool = False
    endTokens: StrictBool = True


class FactorBody(AccountBody):
    """Whether an account needs a second factor."""

    required: StrictBool
