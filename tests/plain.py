"""
Run the tests without the plug-ins for speed: `pytest --plain`, for databases and services.

A child process that opens a database itself calls `follow` first.
"""

import os

from bridge.store import database
from bridge.store.options import DatabaseOptions

_SETTINGS = {
    "BRIDGE_DATABASE__SHORT_WORK_ON_LOOP": "false",
    "BRIDGE_DATABASE__COMMIT_DELAY": "false",
}


def select() -> None:
    """Switch the plug-ins off, here and in all processes that are started from now on."""
    os.environ.update(_SETTINGS)
    database.DEFAULT_OPTIONS = DatabaseOptions(short_work_on_loop=False, commit_delay=False)


def follow() -> None:
    if _SETTINGS.items() <= os.environ.items():
        select()
