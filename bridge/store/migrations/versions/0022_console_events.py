"""Actions of the console move to the audit chain, in order, through the audit outbox."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_BATCH = 1000
_OLDEST = sa.text("SELECT * FROM console_deed WHERE id > :after ORDER BY id LIMIT :most")
_ADD = sa.text("INSERT INTO audit_outbox (event_id, at, body) VALUES (:event_id, :at, :body)")


def upgrade() -> None:
    connection = op.get_bind()
    after = 0
    while rows := connection.execute(_OLDEST, {"after": after, "most": _BATCH}).all():
        connection.execute(_ADD, [_event(row) for row in rows])
        after = rows[-1].id
    op.drop_table("console_deed")


def _event(row: sa.Row[tuple[object, ...]]) -> dict[str, object]:
    kind, _, identity = row.subject.partition(" ")
    done = row.outcome == "done"
    details = {"reason": row.reason} if row.reason else {}
    members = {
        "at": row.at,
        "site_id": row.site or None,
        "action": row.action,
        "outcome": "success" if done else "refused",
        "account_id": None,
        "token_id": None,
        "report_id": None,
        "details": details if done else {**details, "code": row.outcome},
        "version": 2,
        "actor": row.email,
        "origin": "console",
        "source": "",
        "node": "",
        "target_type": "user" if "@" in kind else kind,
        "target_id": row.subject if "@" in kind else identity,
        "before": None,
        "after": None,
        "event_id": f"console-{row.id}",
    }
    return {"event_id": f"console-{row.id}", "at": row.at, "body": json.dumps(members)}
