"""Register an order whose visit has changed: for whose it is, so that nobody misses it."""

from bridge.engine_client.errors import EngineFailure
from bridge.intake.launcher import Launcher
from bridge.intake.registering import registering
from bridge.intake.visits import Revisit
from bridge.queue.states import Failure


async def given(launcher: Launcher, each: Revisit) -> str:
    """Give its report's id; where it is refused, it is whose it was again. Raises EngineFailure."""
    try:
        return (await launcher.launch(registering(each.after.key, each.told))).report_id
    except EngineFailure as failure:
        if each.moves and failure.failure is Failure.PERMANENT:
            await launcher.launch(registering(each.before.key, each.before.tags))
        raise
