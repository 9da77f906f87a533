"""What an outcome leaves on the row of its message, beside the state: notes, and doubts."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, text

from bridge.queue.work import Outcome

_NOTE = text("UPDATE message SET notes = :notes WHERE id = :id")
_DOUBT = text("UPDATE message SET doubts = :doubts WHERE id = :id")


def keep(connection: Connection, outcomes: Sequence[Outcome]) -> None:
    """Write the notes and the counts of doubts that outcomes bring, within a transaction."""
    notes = [
        {"id": each.message_id, "notes": json.dumps(each.notes, ensure_ascii=False)}
        for each in outcomes
        if each.notes is not None
    ]
    if notes:
        connection.execute(_NOTE, notes)
    doubts = [
        {"id": each.message_id, "doubts": each.doubts}
        for each in outcomes
        if each.doubts is not None
    ]
    if doubts:
        connection.execute(_DOUBT, doubts)
