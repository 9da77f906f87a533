"""Turn the mistakes of users and the troubles of machines into a message and an exit status."""

import sys

from bridge.errors import BridgeError
from config.errors import SettingsError
from mappings.errors import MappingErrors
from mllp.errors import MLLPError

USAGE = 2
FAILED = 1


def explain(error: Exception) -> int:
    """Print what is wrong and return the exit status; raise what nobody foresaw again."""
    if isinstance(error, SettingsError):
        print("\n".join(str(mistake) for mistake in error.mistakes), file=sys.stderr)
        return USAGE
    if isinstance(error, BridgeError | MappingErrors | MLLPError | OSError):
        print(f"bridge: {error}", file=sys.stderr)
        return FAILED
    raise error
