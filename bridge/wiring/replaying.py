"""Queue a stored message again, judged anew: the definitions in force now are what maps it."""

from datetime import UTC, datetime

from bridge.errors import BridgeError
from bridge.intake.verdict import Judge
from bridge.observability.metrics import Metrics
from bridge.queue import browse, operate
from bridge.queue.states import State
from bridge.store.database import Database
from bridge.wiring import reading
from bridge.wiring.intake import listenings
from bridge.wiring.shelf import in_force
from bridge.wiring.stores import bridge_database
from bridge.wiring.validation import policy, validator
from config import Settings
from mllp.framing import Frame


class StillRefused(BridgeError):  # noqa: N818  # named for what happened
    """The definitions in force refuse the message too."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"still refused: {reason}")


def replay_message(settings: Settings, message_id: int) -> int:
    """Queue a message again; give how many later ones of its patient were applied meanwhile."""
    with bridge_database(settings.home) as database:
        routing = _routing(settings, database, message_id)
        return operate.replay_message(database, message_id, routing)


def _routing(settings: Settings, database: Database, message_id: int) -> operate.Routing | None:
    detail = browse.message(database, message_id)
    name, refused = detail.row.listener, detail.row.state is State.REFUSED
    listening = listenings(reading.current(settings, database), in_force(settings, database)).get(
        name
    )
    if listening is None:
        if refused:
            raise StillRefused("its listener is no longer in the settings")
        return None
    section = next(each for each in settings.listener if each.name == name)
    listening = policy(listening, validator(settings, section, Metrics()))
    troubles: list[BaseException] = []
    verdict = Judge(listening, troubles.append).judge(Frame(detail.payload), datetime.now(UTC))
    if verdict.definition is not None and not verdict.refusals:
        return operate.Routing(verdict.definition.name, verdict.definition.version, verdict.lanes)
    if refused:
        raise StillRefused("; ".join(f"{each.text} {each.place}" for each in verdict.refusals))
    return None  # it was taken once: as then
