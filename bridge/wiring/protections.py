"""`bridge check`: what confines the processes that run hooks and read documents on this machine."""

from collections.abc import Sequence

from bridge.wiring.findings import Finding, Severity
from bridge.workers.confinement import ALL, FILTER, NAMESPACES
from bridge.workers.errors import WorkerError
from bridge.workers.pools import HOOKS

PLACE = "worker processes"


def protections() -> list[Finding]:
    """List the protections that are active in a worker process, and warn of those that are not."""
    try:
        return findings(HOOKS.protections())
    except WorkerError as error:
        return [Finding(Severity.WARNING, PLACE, f"none can be started here: {error}")]


def findings(active: Sequence[str]) -> list[Finding]:
    """Say what is active and what is not; own namespaces are of no use behind the filter."""
    found = []
    if active:
        found.append(Finding(Severity.NOTE, PLACE, f"active protections: {'; '.join(active)}"))
    else:
        text = "no protection is active: hooks run with the rights of the service"
        found.append(Finding(Severity.WARNING, PLACE, text))
    missing = [each for each in ALL if each not in active]
    if FILTER in active and NAMESPACES in missing:
        missing.remove(NAMESPACES)
    if active and missing:
        text = f"not offered by this kernel or container: {'; '.join(missing)}"
        found.append(Finding(Severity.WARNING, PLACE, text))
    return found
