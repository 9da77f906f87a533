"""
The trace of the queues, compared with the actions of the models.

Triggers in the database write one row for each change of a message's or delivery's state. Each
row must be an action of `tests/model/Queue.tla` (inbox) or `tests/model/Outbox.tla` (outbox):

    ''      -> queued, ignored, refused   a message arrives; Init of the models (Arrive)
    queued  -> claimed                    Claim
    claimed -> done, ignored, parked      Settle
    claimed -> queued                     Requeue, or Settle without a positive reply
    ended   -> queued                     Replay; not allowed here: the soak test does not replay

The guards of the actions are checked as well: `MayRun` (nothing earlier of a lane is open),
`OneClaimPerLane`, `OnlyOwnersSettle` (the actor is the name of the database session, one for each
node), and `AcceptedOnce` with `Send` (a receiver reads a message after its claim, and not after
its acceptance was recorded). The trace contains committed changes only.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import sqlalchemy
from sqlalchemy import text

ENDED = frozenset({"done", "ignored", "parked", "refused", "cancelled"})
ACTIONS = {
    **{("", after): "Arrive" for after in ("queued", "ignored", "refused")},
    ("queued", "claimed"): "Claim",
    **{("claimed", after): "Settle" for after in ("done", "ignored", "parked")},
    ("claimed", "queued"): "Requeue",
}
SLACK = 0.01  # seconds: SQLite's clock counts milliseconds
_LANES = {"message": ("lane_1", "lane_2"), "delivery": ("lane", "NULL")}

_POSTGRES_TABLE = """
    CREATE TABLE soak_trace (seq bigserial PRIMARY KEY, queue text, id bigint, before text,
        after text, actor text, lane_1 bigint, lane_2 bigint, at double precision)
"""
_POSTGRES_FUNCTION = """
    CREATE FUNCTION soak_{queue}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO soak_trace (queue, id, before, after, actor, lane_1, lane_2, at)
        VALUES ('{queue}', NEW.id, CASE TG_OP WHEN 'INSERT' THEN '' ELSE OLD.state END, NEW.state,
            current_setting('application_name'), {lanes},
            extract(epoch FROM clock_timestamp()));
        RETURN NULL;
    END $$
"""
_POSTGRES_TRIGGERS = (
    "CREATE TRIGGER soak_new AFTER INSERT ON {queue} FOR EACH ROW EXECUTE FUNCTION soak_{queue}()",
    """
    CREATE TRIGGER soak_step AFTER UPDATE ON {queue} FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION soak_{queue}()
    """,
)
_SQLITE_TABLE = """
    CREATE TABLE soak_trace (seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT, id INTEGER,
        before TEXT, after TEXT, actor TEXT, lane_1 INTEGER, lane_2 INTEGER, at REAL)
"""
_SQLITE_TRIGGERS = tuple(
    f"""
    CREATE TRIGGER soak_{{queue}}_{name} AFTER {event} BEGIN
        INSERT INTO soak_trace (queue, id, before, after, actor, lane_1, lane_2, at)
        VALUES ('{{queue}}', NEW.id, {before}, NEW.state, '', {{lanes}},
            (julianday('now') - 2440587.5) * 86400);
    END
    """  # noqa: S608  # our own names
    for name, event, before in (
        ("new", "INSERT ON {queue}", "''"),
        ("step", "UPDATE OF state ON {queue} WHEN OLD.state <> NEW.state", "OLD.state"),
    )
)


class Step(NamedTuple):
    """A change of a state. `actor` is empty where it is unknown; `at` in seconds."""

    queue: str
    id: int
    before: str
    after: str
    actor: str
    lanes: tuple[int, ...]
    at: float


def install(url: str) -> None:
    engine = sqlalchemy.create_engine(url)
    postgresql = engine.dialect.name == "postgresql"
    with engine.begin() as connection:
        connection.execute(text(_POSTGRES_TABLE if postgresql else _SQLITE_TABLE))
        for queue, names in _LANES.items():
            lanes = ", ".join(item if item == "NULL" else f"NEW.{item}" for item in names)
            triggers = (_POSTGRES_FUNCTION, *_POSTGRES_TRIGGERS) if postgresql else _SQLITE_TRIGGERS
            for trigger in triggers:
                connection.exec_driver_sql(trigger.format(queue=queue, lanes=lanes))
    engine.dispose()


def steps(url: str) -> Iterator[Step]:
    """Read the trace in the order of the changes."""
    engine = sqlalchemy.create_engine(url)
    with engine.connect().execution_options(stream_results=True) as connection:
        for row in connection.execute(text("SELECT * FROM soak_trace ORDER BY seq")):
            lanes = tuple(lane for lane in (row.lane_1, row.lane_2) if lane is not None)
            yield Step(row.queue, row.id, row.before, row.after, row.actor, lanes, row.at)
    engine.dispose()


class _Queue:
    def __init__(self) -> None:
        self.state: dict[int, str] = {}
        self.claims: dict[int, tuple[str, float]] = {}  # the last claim: actor and time
        self.first_claim: dict[int, float] = {}
        self.accepted: dict[int, float] = {}
        self._open: dict[int, set[int]] = defaultdict(set)  # by lane

    def take(self, step: Step) -> Iterator[str]:
        """Take one step; yield what the model does not allow."""
        known = self.state.get(step.id, "")
        action = ACTIONS.get((step.before, step.after))
        if known != step.before:
            yield f"is {known or 'unknown'} and leaves {step.before}"
        if action is None:
            yield f"{step.before} -> {step.after} is no action"
        if action == "Claim":
            yield from self._claim(step)
        elif action == "Settle":
            yield from self._settle(step)
        self.state[step.id] = step.after
        for lane in step.lanes:
            if step.after in ENDED:
                self._open[lane].discard(step.id)
                if not self._open[lane]:
                    del self._open[lane]
            else:
                self._open[lane].add(step.id)

    def _claim(self, step: Step) -> Iterator[str]:
        for lane in step.lanes:
            others = self._open[lane] - {step.id}
            if any(self.state[other] == "claimed" for other in others):
                yield "is claimed beside another claim of its lane"
            elif any(other < step.id for other in others):
                yield "is claimed before an earlier one of its lane has ended"
        self.claims[step.id] = (step.actor, step.at)
        self.first_claim.setdefault(step.id, step.at)

    def _settle(self, step: Step) -> Iterator[str]:
        claimant, _ = self.claims.get(step.id, ("", 0.0))
        if step.actor != claimant:
            yield f"is settled by {step.actor or 'no node'} and claimed by {claimant or 'no node'}"
        if step.after == "done":
            self.accepted[step.id] = step.at


def problems(trace: Iterable[Step], sent: Iterable[tuple[float, int]] = ()) -> list[str]:
    """Return each step that is no action; `sent`: when the receiver read which delivery."""
    queues: dict[str, _Queue] = defaultdict(_Queue)
    found = [
        f"{step.queue} {step.id} {problem}"
        for step in trace
        for problem in queues[step.queue].take(step)
    ]
    outbox = queues["delivery"]
    for at, number in sent:
        if at < outbox.first_claim.get(number, at + 1) - SLACK:
            found.append(f"delivery {number} was sent without a claim")
        elif at > outbox.accepted.get(number, at) + SLACK:
            found.append(f"delivery {number} was sent after its acceptance was recorded")
    return found


def deliveries(url: str) -> dict[str, int]:
    engine = sqlalchemy.create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT control_id, id FROM delivery")).all()
    engine.dispose()
    return {row.control_id: row.id for row in rows}
