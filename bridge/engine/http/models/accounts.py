"""Bodies of the account endpoints: the signed-in account, and accounts across all sites."""

# ruff: noqa: N815  # the spelling of the interface document
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt

from bridge.engine.http.models.fields import Body, Identifier, OptionalIdentifier
from bridge.engine.service.sites.preferences import Language

# ruff: noqa: N815  # the spelling of the interface document


Password = Annotated[str, Field(max_length=1024, repr=False)]
"""Any text: the policy is `bridge.engine.rules.passwords`."""


class ChoicesBody(Body):
    """How a user wants to see reports; what is left out stays."""

    AppLanguage: Language | Literal[""] | None = None
    theme: Literal["dark", "light", "system", ""] | None = None
    AutoComparePrior: StrictBool | None = None

    def choices(self) -> dict[str, Any]:
        """Return what goes into the user's settings."""
        return self.model_dump(exclude_unset=True, exclude={"name", "signature"})


class ProfileBody(ChoicesBody):
    """What a user changes about themselves; what is left out stays."""

    name: Identifier | None = None
    SpeechLanguage: Language | Literal[""] | None = None
    signatureText: Annotated[str, Field(max_length=500)] | None = None
    signature: Annotated[str | None, Field(description="A data URI", repr=False)] = None


class PasswordBody(Body):
    """A new password, and the present one as proof."""

    present: Password
    wanted: Password


class ConfirmBody(Body):
    """The present password, and a one-time code where the account has an authenticator."""

    password: Password
    code: Annotated[str, Field(max_length=20, repr=False)] = ""


class OwnTokenBody(Body):
    """An access token for oneself."""

    label: Identifier
    expiresDays: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None


class AssignBody(Body):
    """A reader for a report; empty takes the report from its reader."""

    reportId: Identifier
    email: OptionalIdentifier = ""


class AccountBody(Body):
    """An account by its id."""

    accountId: Identifier


class EnrolmentBody(AccountBody):
    """An account whose owner is to set a password anew."""

    secondFactor: StrictBool = False
    endTokens: StrictBool = True


class SecondFactorBody(AccountBody):
    """Whether an account needs a second factor."""

    required: StrictBool
