"""Errors of calls to worker processes.

* WorkerError
    * WorkerTimeout    the call used up its wall-clock or processor time
    * WorkerBusy       no worker became free in time, or too many calls wait
    * WorkerFailed     the task raised an exception, or its process ended
"""

from bridge.errors import BridgeError


class WorkerError(BridgeError):
    """A call to a worker process has no answer."""


class WorkerTimeout(WorkerError):  # noqa: N818  # named for what happened
    """The call exceeded its limits of wall-clock or processor time."""

    def __init__(self) -> None:
        super().__init__("the worker process was stopped: it took too long")


class WorkerBusy(WorkerError):  # noqa: N818  # named for what happened
    """No worker process became free in time."""

    def __init__(self) -> None:
        super().__init__("all worker processes are busy; try again later")


class WorkerFailed(WorkerError):  # noqa: N818  # named for what happened
    """
    The task raised an exception, its answer was too large, or its process ended.

    `names` are the class names of the exception and its bases, as the worker reports them. A
    process with foreign code can invent them: check them before logging.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        super().__init__("the worker process failed")
