"""
Close an order: off the worklist, and receivers of status messages are told of its end.

One that is held or awaited has no report whose deletion would tell them. What was dictated stays,
as ever.
"""

from bridge.engine_client.errors import EngineFailure
from bridge.intake.launcher import Launcher
from bridge.intake.order_rules import OrderState
from bridge.intake.planning import Task
from bridge.intake.registering import launch_of
from bridge.intake.regrouping import order_key
from bridge.intake.withdrawal import NOTHING, ReportService, withdraw
from bridge.queue.states import Failure


async def close(service: ReportService, launcher: Launcher, task: Task, *, over: bool) -> list[str]:
    """Take an order off the worklist, for good where it is `over`; give the notes."""
    key = order_key(task.after.key)
    notes = await withdraw(service, key, cancelled=over)
    if not (over and notes == [NOTHING] and _was_set_aside(task)):
        return notes
    try:
        await launcher.launch(launch_of(task))
    except EngineFailure as failure:
        if failure.failure is not Failure.PERMANENT:
            raise
        return notes
    return await withdraw(service, key, cancelled=True)


def _was_set_aside(task: Task) -> bool:
    before = task.before
    return before is not None and before.state in {OrderState.HELD, OrderState.AWAITED}
