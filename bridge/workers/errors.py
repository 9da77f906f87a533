"""
Why a call to a worker process has no answer.

* WorkerError
    * WorkerTimeout    the call used up its time: wall clock, processor, or it was killed
    * WorkerBusy       no worker became free in time, or too many calls wait already
    * WorkerFailed     the task raised, or its process ended; only a class name is passed on
"""

from bridge.errors import BridgeError


class WorkerError(BridgeError):
    """Root: a call to a worker process has no answer."""


class WorkerTimeout(WorkerError):  # noqa: N818  # named for what happened
    """The call took longer than its limits of wall-clock or processor time allow."""

    def __init__(self) -> None:
        super().__init__("the worker process was stopped: it took too long")


class WorkerBusy(WorkerError):  # noqa: N818  # named for what happened
    """No worker process became free within the time that the call may wait."""

    def __init__(self) -> None:
        super().__init__("all worker processes are busy; try again later")


class WorkerFailed(WorkerError):  # noqa: N818  # named for what happened
    """
    The task raised, answered too much, or its process ended.

    `names` are the names of the exception's class and of its bases, as the worker says them. A
    process that runs foreign code can invent them: do not log them without a check.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        super().__init__("the worker process failed")
