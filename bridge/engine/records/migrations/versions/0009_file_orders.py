"""The orders that brought a file, and keep it when they are unlinked."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_FILE = sa.table(
    "engine_report_file", sa.column("pk"), sa.column("report_pk"), sa.column("orders", sa.JSON)
)
_ORDER = sa.table("engine_report_order", sa.column("pk"), sa.column("report_pk"))


def upgrade() -> None:
    column = sa.Column("orders", sa.JSON, nullable=False, server_default="[]")
    op.add_column("engine_report_file", column)
    # The orders of existing files of linked reports are unknown: the files stay.
    alone = (
        sa.select(_ORDER.c.report_pk, sa.func.min(_ORDER.c.pk).label("order_pk"))
        .where(_ORDER.c.report_pk.in_(sa.select(_FILE.c.report_pk)))
        .group_by(_ORDER.c.report_pk)
        .having(sa.func.count() == 1)
    )
    for report_pk, order_pk in op.get_bind().execute(alone).all():
        own = _FILE.c.report_pk == report_pk
        op.execute(_FILE.update().where(own).values(orders=[order_pk]))
