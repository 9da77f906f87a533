"""Permissions of a launch, and its user (interface reference, Authentication)."""

from typing import Any

from tests.bridge.engine.http.engine_service import (
    ADMIN,
    FOREIGN,
    OTHER,
    READER,
    Service,
    launch_body,
    user,
)


def test_an_administrator_launches_for_an_unknown_user(service: Service) -> None:
    """Authentication 6: unknown users are registered on the site at their first launch."""
    body = service.launch(userInfo=user("New.Person@Site1.test", "New Person")).json()
    assert body["owner"] == {"name": "New Person", "email": "new.person@site1.test"}
    members = service.get("admin/sites/SITE1/users").json()
    assert {"new.person@site1.test": "user"}.items() <= {
        each["email"]: each["role"] for each in members
    }.items()


def test_an_invalid_auth_is_refused_or_reported(service: Service) -> None:
    """403 if the header token is not sufficient, else a warning."""
    invalid = (
        ("rbt_unknown", "auth_invalid"),
        (service.tokens[FOREIGN], "user_not_permitted"),
        (service.tokens[READER], "user_not_permitted"),
    )
    for number, (token, code) in enumerate(invalid):
        for lazy in (False, True):
            named: dict[str, Any] = {"userInfo": user(Auth=token), "lazyLaunch": lazy}
            refused = service.launch(READER, accession=f"R{number}", **named)
            assert (refused.status_code, refused.json()["code"]) == (403, code)
            assert refused.json()["errors"][0]["pointer"] == "/userInfo/Auth"
            assert service.launch(FOREIGN, **named).status_code == 403
            warned = service.launch(accession=f"W{number}{lazy}", **named)
            assert (warned.status_code, warned.json()["warnings"]) == (200, ["auth_ignored"])
            registered = service.launch(
                accession=f"O{number}{lazy}", registerOrder=True, **{**named, "lazyLaunch": True}
            )
            assert registered.json()["warnings"] == ["auth_ignored"]
    batch = [launch_body("B1", userInfo=user(Auth="rbt_unknown")), launch_body("B2")]
    first, second = service.post("report/launch/clinical/batch", batch, READER).json()
    assert (first["status"], second["status"]) == (403, "Draft")
    good = service.launch(accession="G1", userInfo=user(Auth=service.tokens[ADMIN]))
    assert good.json()["warnings"] == []


def test_a_plain_user_launches_for_members_only(service: Service) -> None:
    """Authentication 3 and 5: launching for other users requires a site administrator."""
    assert service.launch(READER, userInfo=user(OTHER)).json()["owner"]["email"] == OTHER
    for more in ({}, {"Auth": ""}):
        assert service.launch(READER, userInfo=user("x@site1.test", **more)).status_code == 403


def test_a_token_of_another_site_may_not_launch(service: Service) -> None:
    """A valid token without a right on the site: 403."""
    assert service.launch(FOREIGN).status_code == 403
    assert service.launch(site="NOWHERE").status_code == 404


def test_a_service_token_must_name_a_user(service: Service) -> None:
    """The report of an eager launch always has an owner."""
    assert service.launch("service").status_code == 400
    assert service.launch("service", userInfo=user()).json()["owner"]["email"] == READER
