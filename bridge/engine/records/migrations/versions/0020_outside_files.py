"""The PDF files of outside reports have a table of their own: a report may have several."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "engine_outside_file",
        sa.Column("pk", BIG_KEY, primary_key=True),
        sa.Column(
            "version_pk",
            BIG_KEY,
            sa.ForeignKey("engine_outside_version.pk", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint(
            "version_pk", "position", name="uq_engine_outside_file_version_pk_position"
        ),
    )
    op.execute(
        "INSERT INTO engine_outside_file (version_pk, position, content)"
        " SELECT pk, 1, pdf FROM engine_outside_version WHERE pdf IS NOT NULL"
    )
    pdfs = sa.Column("pdfs", sa.Integer, nullable=False, server_default="0")
    op.add_column("engine_outside_version", pdfs)
    op.execute("UPDATE engine_outside_version SET pdfs = 1 WHERE pdf IS NOT NULL")
    op.drop_column("engine_outside_version", "pdf")
    op.drop_column("engine_outside_version", "pdf_bytes")
