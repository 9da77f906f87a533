"""Prelim groups, templates, billing codes and signatures of a site, for commands."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bridge.admin.engine_administration import (
    AdministrationRefused,
    EngineAdministration,
    as_refusal,
)
from bridge.engine.documents.uploads.mrrt import BadTemplate, write_template
from bridge.engine.documents.uploads.mrrt import import_template as read_template
from bridge.engine.rules.text.document import BadDocument, restore, to_json
from bridge.engine.service.accounts import users
from bridge.engine.service.sites import audit_states, billing, site_settings


def groups(engine: EngineAdministration, site_id: str) -> list[dict[str, Any]]:
    """Return a site's prelim groups as the API shows them."""
    with engine.reading(site_id) as connection:
        return site_settings.list_prelim_groups(connection, site_id)


def set_group(
    engine: EngineAdministration,
    site_id: str,
    name: str,
    tags: Sequence[str],
    members: Sequence[str],
    reviewers: Sequence[str] | None,
) -> None:
    """Create or replace a prelim group; the default reviewers are all users in no group."""
    with engine.transaction(
        "prelim-group-update",
        site_id,
        target=("prelim-group", name),
        state=audit_states.prelim_group(site_id, name),
    ) as (connection, _):
        site_settings.get_site(connection, site_id)
        site_settings.set_prelim_group(connection, site_id, name, tags, members, reviewers)


def templates(engine: EngineAdministration, site_id: str) -> list[dict[str, Any]]:
    with engine.reading(site_id) as connection:
        return site_settings.list_templates(connection, site_id)


def import_template(
    engine: EngineAdministration, site_id: str, number: int, html: str, name: str = ""
) -> str:
    """Create or replace a template from an IHE MRRT file; return its name."""
    try:
        title, document = read_template(html)
    except (BadTemplate, BadDocument) as error:
        raise AdministrationRefused(str(error)) from None
    name = name or title or f"Template {number}"
    with engine.transaction(
        "template-update",
        site_id,
        target=("template", str(number)),
        state=audit_states.template(site_id, number),
    ) as (connection, now):
        site_settings.get_site(connection, site_id)
        site_settings.set_template(connection, site_id, number, name, to_json(document), now)
    return name


def export_template(engine: EngineAdministration, site_id: str, number: int) -> str:
    """Return a template as an IHE MRRT file."""
    found = next((each for each in templates(engine, site_id) if each["number"] == number), None)
    if found is None:
        raise AdministrationRefused("the site has no such template")
    return write_template(found["name"], restore(found["document"]))


def remove_template(engine: EngineAdministration, site_id: str, number: int) -> None:
    with engine.transaction(
        "template-delete",
        site_id,
        target=("template", str(number)),
        state=audit_states.template(site_id, number),
    ) as (connection, _):
        site_settings.get_site(connection, site_id)
        site_settings.delete_template(connection, site_id, number)


def code_map(engine: EngineAdministration, site_id: str) -> str:
    """Return a site's billing code map as a CSV."""
    with engine.reading(site_id) as connection:
        rows = billing.code_map(connection, site_id)
    text = io.StringIO()
    writer = csv.DictWriter(text, billing.COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def import_codes(engine: EngineAdministration, site_id: str, text: str) -> int:
    """Replace a site's billing code map with a CSV; return the number of rows."""
    with as_refusal():
        rows = billing.read_code_map(text)
    with engine.transaction(
        "code-map-update",
        site_id,
        target=("code-map", site_id),
        state=audit_states.code_map(site_id),
        rows=len(rows),
    ) as (connection, _):
        site_settings.get_site(connection, site_id)
        billing.set_code_map(connection, site_id, rows)
    return len(rows)


def set_signature(engine: EngineAdministration, email: str, uri: str | None) -> None:
    """Set the signature image (data URI, None removes it) of a user's future reports."""
    with as_refusal():
        image = site_settings.image_uri(uri, "signature")
    with engine.transaction(
        "signature-update", target=("user", email), state=audit_states.signature(email)
    ) as (connection, _):
        account = users.find_account(connection, email)
        if account is None:
            raise AdministrationRefused("there is no such user")
        users.update_membership(connection, account.id, signature=image)
