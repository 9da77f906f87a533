"""The controls of the report page."""

from typing import Any

import pytest

from bridge.contract import ReportStatus
from bridge.engine.http.report_page import controls
from bridge.engine.rules.site_roles import PERMITTED, SiteRole

WRITER = sorted(action.value for action in PERMITTED[SiteRole.USER, True])


def page(status: str, **changes: Any) -> dict[str, Any]:
    """Return the state of a page, for the report's owner unless changed."""
    return {
        "status": status,
        "permitted": WRITER,
        "writable": True,
        "owner": True,
        "unsignUntil": None,
        "addendumUnsignUntil": None,
        "addenda": [],
        **changes,
    }


CASES = {
    "draft": (page("Draft"), {"edit", "sign", "prelim", "discard"}),
    "draft, another session writes": (page("Draft", writable=False), {"sign", "prelim", "discard"}),
    "a colleague's draft": (page("Draft", writable=False, owner=False), set()),
    "a colleague's preliminary report": (
        page("Preliminary", writable=False, owner=False),
        set(),
    ),
    "a colleague's signed report": (
        page("Final", unsignUntil=1, owner=False),
        {"addendum-create", "unsign", "sign-now"},
    ),
    "preliminary": (page("Preliminary"), {"edit", "sign", "prelim"}),
    "ordered": (page("Ordered", writable=False), set()),
    "final": (page("Final"), {"addendum-create"}),
    "final, cooling": (page("Final", unsignUntil=1), {"addendum-create", "unsign", "sign-now"}),
    "final, an addendum is open": (page("Final", addenda=[{"state": "draft"}]), set()),
    "addendum, cooling": (
        page("Addendum", addendumUnsignUntil=1, addenda=[{"state": "signed"}]),
        {"addendum-create", "addendum-unsign", "addendum-sign-now"},
    ),
    "no permissions": (page("Draft", permitted=[], writable=False), set()),
}


@pytest.mark.parametrize(("state", "expected"), list(CASES.values()), ids=list(CASES))
def test_the_controls_of_a_state(state: dict[str, Any], expected: set[str]) -> None:
    """A page has exactly the controls that state and role permit."""
    assert {control.value for control in controls(state)} == expected


@pytest.mark.parametrize("status", ReportStatus)
def test_a_user_without_permission_gets_no_control(status: ReportStatus) -> None:
    state = page(status, permitted=[], unsignUntil=1, addendumUnsignUntil=1)
    assert controls(state) == []
