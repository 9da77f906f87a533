"""The `bridge` command: options in, one use case of `bridge.admin` called, output printed."""

import gc
import sys

from bridge.cli.application import application

_NEW_OBJECTS = 400_000
"""
Allocations until the garbage collector runs.

The imports of a command allocate fewer objects. Collecting them would take a fifth of the
command's time.
"""


def main() -> None:
    """Run the command. Known errors become a message and an exit status, not a traceback."""
    gc.set_threshold(_NEW_OBJECTS)
    try:
        application()
    except Exception as error:  # noqa: BLE001  # unknown errors are raised again
        from bridge.cli.application import explain

        sys.exit(explain(error))
