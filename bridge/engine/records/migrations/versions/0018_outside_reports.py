"""
Outside reports: reports that were not made here, with the versions that their senders sent.

They are beside the reports: the worklist, the change feed and the releases do not read them.
"""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "engine_outside_report",
        sa.Column("pk", BIG_KEY, primary_key=True),
        sa.Column("outside_id", sa.String, nullable=False),
        sa.Column("site_id", sa.String, sa.ForeignKey("engine_site.site_id"), nullable=False),
        sa.Column("sender", sa.String, nullable=False),
        sa.Column("document_hash", sa.String, nullable=False),
        sa.Column("mrn", sa.String, nullable=False),
        sa.Column("accession", sa.String, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("outside_id", name="uq_engine_outside_report_outside_id"),
        sa.UniqueConstraint(
            "site_id",
            "sender",
            "document_hash",
            name="uq_engine_outside_report_site_id_sender_document_hash",
        ),
    )
    for column in ("mrn", "accession"):
        op.create_index(
            f"ix_engine_outside_report_{column}", "engine_outside_report", ["site_id", column]
        )
    op.create_table(
        "engine_outside_version",
        sa.Column("pk", BIG_KEY, primary_key=True),
        sa.Column(
            "outside_pk",
            BIG_KEY,
            sa.ForeignKey("engine_outside_report.pk", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("digest", sa.String, nullable=False),
        sa.Column("number", sa.String, nullable=False),
        sa.Column("number_hash", sa.String, nullable=False),
        sa.Column("parent_hash", sa.String, nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("code", sa.String, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=True),
        sa.Column("sent_at", sa.BigInteger, nullable=True),
        sa.Column("received_at", sa.BigInteger, nullable=False),
        sa.Column("title", sa.String, nullable=False),
        sa.Column("author", sa.String, nullable=False),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("content_text", sa.Text, nullable=False),
        sa.Column("omitted", sa.JSON, nullable=False),
        sa.Column("pdf", sa.LargeBinary, nullable=True),
        sa.Column("pdf_bytes", sa.BigInteger, nullable=False),
        sa.UniqueConstraint(
            "outside_pk", "digest", name="uq_engine_outside_version_outside_pk_digest"
        ),
    )
    for column in ("number_hash", "parent_hash"):
        op.create_index(f"ix_engine_outside_version_{column}", "engine_outside_version", [column])
