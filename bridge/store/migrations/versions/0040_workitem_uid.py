"""The UID of a step's workitem is a column, so that one is read without the others."""

import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

_BATCH = 1000
_NAMESPACE = uuid.UUID("4f5a3a0e-0d5b-5c8e-8a3b-0c6f2b7f1d11")
_STEP = sa.table(
    "scheduled_step",
    *(sa.column(name) for name in ("id", "site", "mrn", "accession", "position", "workitem_uid")),
)


def upgrade() -> None:
    column = sa.Column("workitem_uid", sa.Text, nullable=False, server_default="")
    op.add_column("scheduled_step", column)
    connection = op.get_bind()
    columns = (_STEP.c.id, _STEP.c.site, _STEP.c.mrn, _STEP.c.accession, _STEP.c.position)
    changed = (
        sa.update(_STEP)
        .where(_STEP.c.id == sa.bindparam("of_id"))
        .values(workitem_uid=sa.bindparam("uid"))
    )
    last = 0
    while True:
        query = sa.select(*columns).where(_STEP.c.id > last).order_by(_STEP.c.id).limit(_BATCH)
        rows = connection.execute(query).all()
        if not rows:
            break
        connection.execute(changed, [{"of_id": row.id, "uid": _uid(row)} for row in rows])
        last = rows[-1].id
    op.create_index("scheduled_step_workitem", "scheduled_step", ["workitem_uid"])


def _uid(row: Any) -> str:
    name = "\0".join((row.site, row.mrn, row.accession, str(row.position)))
    return f"2.25.{uuid.uuid5(_NAMESPACE, name).int}"


def downgrade() -> None:
    op.drop_index("scheduled_step_workitem", "scheduled_step")
    op.drop_column("scheduled_step", "workitem_uid")
