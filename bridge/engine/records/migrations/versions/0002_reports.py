"""Reports and their orders, addenda, reads, signatures and files."""

import sqlalchemy as sa
from alembic import op

from bridge.store.columns import BIG_KEY

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _report()
    _report_order()
    _addendum()
    _prelim_read()
    _signature()
    _report_file()
    _share()
    _billing()
    _tombstone()
    _patient_pointer()


def _report() -> None:
    op.create_table(
        "engine_report",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_id", sa.String, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("origin", sa.String(32), nullable=False),
        sa.Column("owner_id", BIG_KEY, nullable=True),
        sa.Column("document", sa.JSON, nullable=True),
        sa.Column("content_text", sa.Text, nullable=False),
        sa.Column("key_findings", sa.Text, nullable=False),
        sa.Column("template_number", sa.Integer, nullable=True),
        sa.Column("reporting", sa.JSON, nullable=False),
        sa.Column("signed_at", sa.BigInteger, nullable=True),
        sa.Column("signed_by_id", BIG_KEY, nullable=True),
        sa.Column("signed_by", sa.JSON, nullable=True),
        sa.Column("signed_zone", sa.String, nullable=True),
        sa.Column("content_hash", sa.String, nullable=True),
        sa.Column("cooling_until", sa.BigInteger, nullable=True),
        sa.Column("lease_holder", sa.String, nullable=True),
        sa.Column("lease_until", sa.BigInteger, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_report"),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["engine_account.id"], name="fk_engine_report_owner_id"
        ),
        sa.ForeignKeyConstraint(
            ["signed_by_id"], ["engine_account.id"], name="fk_engine_report_signed_by_id"
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_report_site_id"
        ),
        sa.UniqueConstraint("report_id", name="uq_engine_report_report_id"),
    )
    op.create_index("ix_engine_report_created", "engine_report", ["site_id", "created_at", "pk"])
    op.create_index("ix_engine_report_owner_id", "engine_report", ["owner_id"])
    op.create_index("ix_engine_report_worklist", "engine_report", ["site_id", "updated_at", "pk"])


def _report_order() -> None:
    op.create_table(
        "engine_report_order",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("mrn", sa.String, nullable=False),
        sa.Column("accession", sa.String, nullable=False),
        sa.Column("location", sa.String, nullable=False),
        sa.Column("tags", sa.JSON, nullable=False),
        sa.Column("order_metadata", sa.JSON, nullable=False),
        sa.Column("search", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_report_order"),
        sa.ForeignKeyConstraint(
            ["report_pk"], ["engine_report.pk"], name="fk_engine_report_order_report_pk"
        ),
        sa.UniqueConstraint(
            "site_id", "mrn", "accession", name="uq_engine_report_order_site_id_mrn_accession"
        ),
    )
    op.create_index(
        "ix_engine_report_order_accession", "engine_report_order", ["site_id", "accession"]
    )
    op.create_index(
        "ix_engine_report_order_group", "engine_report_order", ["report_pk", "position"]
    )


def _addendum() -> None:
    op.create_table(
        "engine_addendum",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("document", sa.JSON, nullable=True),
        sa.Column("content_text", sa.Text, nullable=False),
        sa.Column("created_by_id", BIG_KEY, nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("signed_at", sa.BigInteger, nullable=True),
        sa.Column("signed_by", sa.JSON, nullable=True),
        sa.Column("content_hash", sa.String, nullable=True),
        sa.Column("cooling_until", sa.BigInteger, nullable=True),
        sa.Column("released_at", sa.BigInteger, nullable=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_addendum"),
        sa.ForeignKeyConstraint(
            ["created_by_id"], ["engine_account.id"], name="fk_engine_addendum_created_by_id"
        ),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_addendum_report_pk",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("report_pk", "number", name="uq_engine_addendum_report_pk_number"),
    )


def _prelim_read() -> None:
    op.create_table(
        "engine_prelim_read",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("group_name", sa.String, nullable=False),
        sa.Column("tag_name", sa.String, nullable=False),
        sa.Column("read_at", sa.BigInteger, nullable=False),
        sa.Column("read_by_id", BIG_KEY, nullable=True),
        sa.Column("read_by", sa.JSON, nullable=False),
        sa.Column("document", sa.JSON, nullable=True),
        sa.Column("content_text", sa.Text, nullable=False),
        sa.Column("reviewed_at", sa.BigInteger, nullable=True),
        sa.Column("reviewed_by", sa.JSON, nullable=True),
        sa.Column("withdrawn_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_prelim_read"),
        sa.ForeignKeyConstraint(
            ["read_by_id"], ["engine_account.id"], name="fk_engine_prelim_read_read_by_id"
        ),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_prelim_read_report_pk",
            ondelete="CASCADE",
        ),
    )
    op.create_index(
        "ix_engine_prelim_read_queue", "engine_prelim_read", ["group_name", "tag_name", "read_at"]
    )
    op.create_index("ix_engine_prelim_read_report_pk", "engine_prelim_read", ["report_pk"])


def _signature() -> None:
    op.create_table(
        "engine_signature",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("signed_at", sa.BigInteger, nullable=False),
        sa.Column("signed_by", sa.JSON, nullable=False),
        sa.Column("acted_by_id", BIG_KEY, nullable=True),
        sa.Column("document", sa.JSON, nullable=True),
        sa.Column("content_text", sa.Text, nullable=False),
        sa.Column("content_hash", sa.String, nullable=False),
        sa.Column("withdrawn_at", sa.BigInteger, nullable=True),
        sa.Column("cleared", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_signature"),
        sa.ForeignKeyConstraint(
            ["acted_by_id"], ["engine_account.id"], name="fk_engine_signature_acted_by_id"
        ),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_signature_report_pk",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_engine_signature_report_pk", "engine_signature", ["report_pk"])


def _report_file() -> None:
    op.create_table(
        "engine_report_file",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("sha256", sa.String, nullable=False),
        sa.Column("sop_instance_uid", sa.String, nullable=True),
        sa.Column("media_type", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_report_file"),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_report_file_report_pk",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint(
            "report_pk", "kind", "sha256", name="uq_engine_report_file_report_pk_kind_sha256"
        ),
    )


def _share() -> None:
    op.create_table(
        "engine_share",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("handle_hash", sa.String, nullable=False),
        sa.Column("created_by_id", BIG_KEY, nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=True),
        sa.Column("revoked_at", sa.BigInteger, nullable=True),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_share"),
        sa.ForeignKeyConstraint(
            ["created_by_id"], ["engine_account.id"], name="fk_engine_share_created_by_id"
        ),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_share_report_pk",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("handle_hash", name="uq_engine_share_handle_hash"),
    )
    op.create_index("ix_engine_share_report_pk", "engine_share", ["report_pk"])


def _billing() -> None:
    op.create_table(
        "engine_billing",
        sa.Column("pk", BIG_KEY, nullable=False),
        sa.Column("report_pk", BIG_KEY, nullable=False),
        sa.Column("codes", sa.JSON, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("pk", name="pk_engine_billing"),
        sa.ForeignKeyConstraint(
            ["report_pk"],
            ["engine_report.pk"],
            name="fk_engine_billing_report_pk",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_engine_billing_report_pk", "engine_billing", ["report_pk"])


def _tombstone() -> None:
    op.create_table(
        "engine_tombstone",
        sa.Column("report_id", sa.String, nullable=False),
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("deleted_at", sa.BigInteger, nullable=False),
        sa.Column("deleted_by_id", BIG_KEY, nullable=True),
        sa.PrimaryKeyConstraint("report_id", name="pk_engine_tombstone"),
        sa.ForeignKeyConstraint(
            ["deleted_by_id"], ["engine_account.id"], name="fk_engine_tombstone_deleted_by_id"
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_tombstone_site_id"
        ),
    )
    op.create_index("ix_engine_tombstone_site_id", "engine_tombstone", ["site_id"])


def _patient_pointer() -> None:
    op.create_table(
        "engine_patient_pointer",
        sa.Column("site_id", sa.String, nullable=False),
        sa.Column("prior_mrn", sa.String, nullable=False),
        sa.Column("mrn", sa.String, nullable=False),
        sa.Column("merged_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("site_id", "prior_mrn", name="pk_engine_patient_pointer"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["engine_site.site_id"], name="fk_engine_patient_pointer_site_id"
        ),
    )
    op.create_index("ix_engine_patient_pointer_mrn", "engine_patient_pointer", ["site_id", "mrn"])
