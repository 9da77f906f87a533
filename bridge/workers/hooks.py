"""
Hooks of mappings, run in worker processes (`mappings.language.hooks.HookExecutor`).

A worker process gets the hook's file and one message, and returns the hook's text. Only the class
of an exception is reported, if it is one of Python's own or its name occurs in the hook's file; any
other text may contain patient data.
"""

import builtins
import re
from collections.abc import Iterable
from typing import Any

from bridge.workers.host import MEBIBYTE, WorkerBusy, WorkerFailed, WorkerTimeout
from bridge.workers.pool import HOOKS, WorkerPool
from mappings.language.hooks import HooksBusy, HookStopped, set_hook_executor

SECONDS = 5.0
"""Wall-clock limit of a call; a busy machine needs more than the processor time."""
PROCESSOR_SECONDS = 1
"""Processor time of a call."""
LOADING_SECONDS = 10.0
"""Wall-clock and processor limit for loading a file."""
WAIT = 20.0
"""Seconds for which a call waits for a free process."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # in databases and charsets
_MAX_ANSWER_BYTES = 4 * MEBIBYTE
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)


class WorkerHookRunner:
    """Runs hooks in a pool of worker processes."""

    def __init__(self, pool: WorkerPool = HOOKS) -> None:
        self._pool = pool

    def load(self, module: str, source: str) -> list[str]:
        """Run a hook file; return the names of its functions. Raises HookStopped."""
        limits = {"seconds": LOADING_SECONDS, "processor": round(LOADING_SECONDS)}
        known = self._run_task("load", source, {"module": module}, limits)
        return [name for name in known if isinstance(name, str)] if isinstance(known, list) else []

    def call(self, module: str, source: str, function: str, text: str) -> str:
        """Call a hook with a message. Raises HookStopped."""
        arguments = {"module": module, "function": function, "text": text}
        limits = {"seconds": SECONDS, "processor": PROCESSOR_SECONDS}
        answer = self._run_task("call", source, arguments, limits)
        if not isinstance(answer, str):
            return ""
        if _UNSTORABLE.search(answer):
            raise HookStopped("returned a NUL character or an unpaired surrogate")
        return answer

    def _run_task(
        self, task: str, source: str, arguments: dict[str, str], limits: dict[str, Any]
    ) -> Any:
        payload = source.encode("utf-8", "replace")
        try:
            return self._pool.call(
                task, payload, arguments, max_bytes=_MAX_ANSWER_BYTES, wait=WAIT, **limits
            )
        except WorkerTimeout:
            raise HookStopped("was stopped: it took too long") from None
        except WorkerBusy:
            raise HooksBusy("was not called: all worker processes are busy") from None
        except WorkerFailed as error:
            raise HookStopped(_reason(error.names, source)) from None


def install() -> None:
    """Run the hooks of this process in its worker processes."""
    set_hook_executor(WorkerHookRunner())


def _reason(names: Iterable[str], source: str) -> str:
    for name in names:
        if _NAME.fullmatch(name) and (hasattr(builtins, name) or name in source):
            return f"raised {name}"
    return "was stopped: it returned nothing, needed too much memory or returned too much"
