"""One target under atheris: `python -m tests.fuzz.coverage_guided TARGET LIBFUZZER-OPTIONS`."""

import sys

import atheris

with atheris.instrument_imports(include=["mappings", "mllp"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until the time is over or the target fails."""
    target = TARGETS[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
