"""The `bridge` command. One module a command group; the work is done elsewhere."""

import sys

from bridge.cli.application import application


def main() -> None:
    """Run the command; a mistake of the user's is a message and a status, never a traceback."""
    try:
        application()
    except Exception as error:  # noqa: BLE001  # the outermost site: known mistakes are explained, others raised again
        from bridge.cli.application import explain

        sys.exit(explain(error))
