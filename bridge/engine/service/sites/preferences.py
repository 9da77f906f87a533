"""
A site's preferences: languages, lifetimes and switches.

They are stored as one JSON object of the site, with the member names of the API. An absent member
has the default of the installation.
"""

# ruff: noqa: N815  # the spelling of the interface reference and of the API
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt
from sqlalchemy import Connection, select

from bridge.engine.documents.exports.model import PageSize
from bridge.engine.launch import supported_language
from bridge.engine.records.tables import metadata
from bridge.engine.rules.text.signing_checks import Behaviour, SigningCheck
from bridge.engine.settings import AccessLifetimes

SITES = metadata.tables["engine_site"]

_DAY = 24 * 3600


def _known_language(code: str) -> str:
    known = supported_language(code)
    if known is None:
        message = "is not one of the 17 language codes"
        raise ValueError(message)
    return known


Language = Annotated[str, AfterValidator(_known_language)]


class SignChecks(BaseModel):
    """The behaviour of each check before signing in the application."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    emptyField: Behaviour = Behaviour.ALERT
    openBracket: Behaviour = Behaviour.ALERT
    laterality: Behaviour = Behaviour.ALERT
    sexMismatch: Behaviour = Behaviour.ALERT
    suggestion: Behaviour = Behaviour.ALERT

    def behaviour(self, check: SigningCheck) -> Behaviour:
        chosen: Behaviour = getattr(self, check.value)
        return chosen


class Preferences(BaseModel):
    """A site's preferences. Lifetimes are in seconds; None is the installation's default."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    AppLanguage: Language | None = None
    SpeechLanguage: Language | None = None
    AutoComparePrior: StrictBool | None = None
    signChecks: SignChecks = SignChecks()
    confirmSigning: StrictBool = True
    refuseMergedIdentifiers: StrictBool = False
    browserInit: StrictBool = True
    syncLaunchInFrame: StrictBool = False
    webViewObjects: StrictBool = False
    frameLinkSeconds: Annotated[StrictInt, Field(ge=60, le=7 * _DAY)] | None = None
    loginLinkSeconds: Annotated[StrictInt, Field(ge=60, le=366 * _DAY)] | None = None
    pageSize: PageSize = PageSize.A4
    shareSeconds: Annotated[StrictInt, Field(ge=60, le=366 * _DAY)] = 30 * _DAY
    sessionIdleSeconds: Annotated[StrictInt, Field(ge=300, le=480 * 60)] | None = None

    def stored(self) -> dict[str, Any]:
        """Return the members that differ from the defaults, as they are stored."""
        return self.model_dump(exclude_defaults=True)

    def lifetimes(self, general: AccessLifetimes) -> tuple[int, int]:
        """Return the seconds that a site's links live: those that act as a user, and others."""
        return (
            self.frameLinkSeconds or general.frame_link,
            self.loginLinkSeconds or general.login_link,
        )


def read_preferences(stored: Mapping[str, Any] | None) -> Preferences:
    """Parse stored preferences; ignore members of other releases."""
    known = {k: v for k, v in (stored or {}).items() if k in Preferences.model_fields}
    return Preferences(**known)


def preferences_of(connection: Connection, site_id: str) -> Preferences:
    """Return a site's preferences; the defaults for an unknown site."""
    query = select(SITES.c.settings).where(SITES.c.site_id == site_id)
    return read_preferences(connection.execute(query).scalar_one_or_none())
