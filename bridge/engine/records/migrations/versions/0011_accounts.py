"""Canonical addresses, enrolment links, one-time codes, and the limit of sign-in attempts."""

import sqlalchemy as sa
from alembic import op

from bridge.email import canonical_email
from bridge.store.columns import BIG_KEY

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_ACCOUNT = sa.table(
    "engine_account",
    *map(sa.column, ("id", "email", "password_hash", "password_site_id", "created_at")),
    sa.column("enrolled_at", sa.BigInteger),
)
_SESSION = sa.table(
    "engine_browser_session", *map(sa.column, ("account_id", "created_at", "ended_at"))
)


def upgrade() -> None:
    required = sa.Column(
        "second_factor_required", sa.Boolean, nullable=False, server_default=sa.false()
    )
    for column in (
        required,
        sa.Column("totp_key_id", sa.String, nullable=True),
        sa.Column("totp_sealed", sa.LargeBinary, nullable=True),
        sa.Column("totp_step", sa.BigInteger, nullable=True),
        sa.Column("enrolled_at", sa.BigInteger, nullable=True),
    ):
        op.add_column("engine_account", column)
    _end_passwords_of_administrators()
    op.drop_column("engine_account", "password_site_id")
    _canonical_addresses()
    op.create_table(
        "engine_enrolment",
        sa.Column("pk", BIG_KEY, primary_key=True),
        sa.Column("token_hash", sa.String, nullable=False),
        sa.Column("account_id", BIG_KEY, nullable=False),
        sa.Column("totp_key_id", sa.String, nullable=True),
        sa.Column("totp_sealed", sa.LargeBinary, nullable=True),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("used_at", sa.BigInteger, nullable=True),
        sa.Column("ended_at", sa.BigInteger, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["engine_account.id"], name="fk_engine_enrolment_account_id"
        ),
        sa.UniqueConstraint("token_hash", name="uq_engine_enrolment_token_hash"),
    )
    op.create_index("ix_engine_enrolment_account_id", "engine_enrolment", ["account_id"])
    op.create_table(
        "engine_sign_in_bucket",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("full_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_engine_sign_in_bucket_full_at", "engine_sign_in_bucket", ["full_at"])


def _end_passwords_of_administrators() -> None:
    # A password that a site's administrator knows is removed: its owner enrols again.
    given = _ACCOUNT.c.password_site_id.is_not(None)
    owners = sa.select(_ACCOUNT.c.id).where(given)
    theirs = _SESSION.c.account_id.in_(owners) & _SESSION.c.ended_at.is_(None)
    op.execute(_SESSION.update().where(theirs).values(ended_at=_SESSION.c.created_at))
    op.execute(_ACCOUNT.update().where(given).values(password_hash=None))
    own = _ACCOUNT.c.password_hash.is_not(None)
    op.execute(_ACCOUNT.update().where(own).values(enrolled_at=_ACCOUNT.c.created_at))


def _canonical_addresses() -> None:
    # Where two accounts have one canonical address, the older one keeps it.
    connection = op.get_bind()
    rows = connection.execute(sa.select(_ACCOUNT.c.id, _ACCOUNT.c.email).order_by(_ACCOUNT.c.id))
    found = rows.all()
    taken = {row.email for row in found}
    for row in found:
        canonical = canonical_email(row.email)
        if canonical != row.email and canonical not in taken:
            taken.add(canonical)
            own = _ACCOUNT.c.id == row.id
            connection.execute(_ACCOUNT.update().where(own).values(email=canonical))
