"""
The pools of sealed processes that this process has.

* HOOKS      administrators' Python hooks: on the way of messages, so as urgent as the service
* PARSERS    documents that users bring: less urgent than the service

A module with tasks for PARSERS is named in `_PARSERS`; see `pool` for what it has to have.
"""

import os

from bridge.workers.host import MEBIBYTE
from bridge.workers.pool import WorkerPool

_PARSERS = ("bridge.engine.documents.tasks", "bridge.wiring.import_tasks")

HOOKS = WorkerPool("hooks", ["bridge.workers.hook_tasks"], size=max(2, min(4, os.cpu_count() or 2)))
PARSERS = WorkerPool("parsers", _PARSERS, size=2, memory=1024 * MEBIBYTE, nice=10, waiting=32)
