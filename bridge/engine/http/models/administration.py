"""Bodies of the administrative endpoints (ours): sites, users, tokens, groups, templates."""

# ruff: noqa: N815  # the spelling of the interface document

from typing import Annotated, Any

from pydantic import Field, StrictInt

from bridge.engine.http.models.fields import Body, Identifier, OptionalIdentifier
from bridge.engine.rules.authority import Role
from bridge.engine.service.caller import Scope
from bridge.engine.service.sites import MAX_SIGN_DELAY, SiteSettings

Names = Annotated[list[Identifier], Field(max_length=1000)]


class SiteBody(Body):
    """A site's settings; `signDelay` in seconds."""

    name: OptionalIdentifier = ""
    timeZone: Identifier = "UTC"
    signDelay: Annotated[StrictInt, Field(ge=0, le=MAX_SIGN_DELAY)] = 0
    locations: Names = Field(default_factory=list)
    hostOrigins: Names = Field(default_factory=list)
    settings: dict[str, Any] = Field(default_factory=dict)
    headerImgType: str | None = None
    headerImg: str | None = None
    footerImg: str | None = None

    def to_settings(self, site_id: str) -> SiteSettings:
        """Return the settings as the use case takes them."""
        return SiteSettings(
            site_id,
            self.name or site_id,
            self.timeZone,
            self.signDelay,
            tuple(self.locations),
            tuple(self.hostOrigins),
            self.settings,
            self.headerImgType,
            self.headerImg,
            self.footerImg,
        )


class NewSiteBody(SiteBody):
    """A site to be created."""

    SiteID: Identifier


class UserBody(Body):
    """A user of a site."""

    email: Identifier
    name: OptionalIdentifier = ""
    role: Role = Role.USER
    password: str | None = Field(default=None, min_length=8, max_length=1024, repr=False)


class TokenBody(Body):
    """A token to be made for a user of the site."""

    email: Identifier
    label: OptionalIdentifier = ""
    scopes: list[Scope] = Field(default_factory=list)
    expiresDays: Annotated[StrictInt, Field(ge=1, le=3650)] | None = None


class PrelimGroupBody(Body):
    """A prelim group: its tags, members and reviewers (null: everybody in no group)."""

    name: Identifier
    tags: Annotated[list[Identifier], Field(min_length=1, max_length=100)]
    members: Names = Field(default_factory=list)
    reviewers: Names | None = None


class TemplateBody(Body):
    """A numbered template."""

    name: Identifier
    document: dict[str, Any]


def site_json(site: SiteSettings) -> dict[str, Any]:
    """Return a site as the API shows it."""
    return {
        "SiteID": site.site_id,
        "name": site.name,
        "timeZone": site.time_zone,
        "signDelay": site.sign_delay,
        "locations": list(site.locations),
        "hostOrigins": list(site.host_origins),
        "settings": dict(site.settings or {}),
        "headerImgType": site.header_img_type,
        "headerImg": site.header_img,
        "footerImg": site.footer_img,
    }
