"""The keys under which pages keep unsaved text on their computers: one for each user of a report.

The text never comes here; without the key nobody reads it there. A report's keys go with it.
"""

import base64
import secrets

from sqlalchemy import insert, select

from bridge.engine.records.tables import DraftKey, metadata
from bridge.engine.service.work import Work

KEYS = metadata.tables[str(DraftKey.__tablename__)]
KEY_BYTES = 32


def draft_key(work: Work, report_pk: int, account_id: int) -> str:
    """Return a user's key for a locked report in base64, made where there is none."""
    here = (KEYS.c.report_pk == report_pk, KEYS.c.account_id == account_id)
    secret = work.connection.execute(select(KEYS.c.secret).where(*here)).scalar_one_or_none()
    if secret is None:
        secret = secrets.token_bytes(KEY_BYTES)
        work.connection.execute(
            insert(KEYS).values(
                report_pk=report_pk, account_id=account_id, secret=secret, created_at=work.now
            )
        )
    return base64.b64encode(secret).decode("ascii")
