"""The `bridge` command: options in, one use case of `bridge.admin` called, output printed."""

import sys

from bridge.cli.application import application


def main() -> None:
    """Run the command. Known errors become a message and an exit status, not a traceback."""
    try:
        application()
    except Exception as error:  # noqa: BLE001  # unknown errors are raised again
        from bridge.cli.application import explain

        sys.exit(explain(error))
