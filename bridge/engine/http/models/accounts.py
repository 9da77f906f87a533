"""Bodies of the account endpoints: the signed-in account, and accounts across all sites."""

# ruff: noqa: N815  # the spelling of the interface document
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt

from bridge.engine.http.models.fields import Body, Identifier, OptionalIdentifier
from bridge.engine.service.sites.preferences import Language

Password = Annotated[str, Field(max_length=1024, repr=False)]
"""Any text; the password policy is in `bridge.engine.rules.passwords`."""


class ChoicesBody(Body):
    """Display preferences of a user; absent members are unchanged."""

    AppLanguage: Language | Literal[""] | None = None
    theme: Literal["dark", "light", "system", ""] | None = None
    AutoComparePrior: StrictBool | None = None

    def choices(self) -> dict[str, Any]:
        """Return the preferences that were sent."""
        return self.model_dump(exclude_unset=True, exclude={"name", "signature"})


class ProfileBody(ChoicesBody):
    """Changes to the own profile; absent members are unchanged."""

    name: Identifier | None = None
    SpeechLanguage: Language | Literal[""] | None = None
    signatureText: Annotated[str, Field(max_length=500)] | None = None
    signature: Annotated[str | None, Field(description="A data URI", repr=False)] = None


class PasswordBody(Body):
    """A new password, and the current one as proof."""

    present: Password
    wanted: Password


class ConfirmBody(Body):
    """The current password, and a one-time code if the account has an authenticator."""

    password: Password
    code: Annotated[str, Field(max_length=20, repr=False)] = ""


class OwnTokenBody(Body):
    """A new access token for the user."""

    label: Identifier
    expiresDays: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None


class AssignBody(Body):
    """The reader of a report; an empty e-mail address removes the assignment."""

    reportId: Identifier
    email: OptionalIdentifier = ""


class AccountBody(Body):
    """An account by its id."""

    accountId: Identifier


class EnrolmentBody(AccountBody):
    """An account whose owner must set a new password."""

    secondFactor: StrictBool = False
    endTokens: StrictBool = True


class SecondFactorBody(AccountBody):
    """Whether an account needs a second factor."""

    required: StrictBool
