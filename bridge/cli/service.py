"""`bridge init`, `check`, `migrate`, `serve`, `rotate-keys`, `prune`."""

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home
from bridge.roles import Role


def init(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="The folder to make.")],
) -> None:
    """Make a home: settings, mappings, secrets. Never overwrites."""
    from bridge.admin.data_directory import make_home

    written, kept = make_home(home)
    for path in written:
        print(f"wrote {path}")
    for path in kept:
        print(f"kept  {path}")


def check(
    home: Home,
    live: Annotated[
        bool, typer.Option("--live", help="Ask every peer: connections, TLS, folders, service.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Correct files that other accounts can access.")
    ] = False,
) -> None:
    """Check settings, mappings, keys, database and destinations; name every mistake at once."""
    from bridge.admin.checks.checks import check_home, fix_home
    from bridge.admin.checks.findings import Severity
    from bridge.admin.checks.security import protections

    if fix:
        fix_home(home)  # the check below names what is left
    findings = check_home(home, reach=not live) + protections()
    if live:
        from bridge.admin.checks.live import check_live

        findings += check_live(home)
    for finding in findings:
        print(f"{finding.severity:<7} {finding.place}: {finding.message}")
    if any(finding.severity is Severity.ERROR for finding in findings):
        sys.exit(1)
    print("ok")


def migrate(home: Home) -> None:
    """Bring the databases of a home to the schema of this release."""
    from bridge.admin.console_access import resolve_grants
    from bridge.wiring.stores import bridge_database, migrate_all
    from config import load

    settings = load(home)
    for name, revisions in migrate_all(settings).items():
        print(f"{name}: {', '.join(revisions)}")
    with bridge_database(home) as database:
        resolve_grants(settings, database)


_NOT_FOR_A_SERVICE = ("rich", "pygments", "greenlet")
"""For terminals and for other kinds of threads: libraries use them where they are installed."""


def _load_lean() -> None:
    """Load what looks for these without them: four megabytes, for nothing."""
    hidden = [name for name in _NOT_FOR_A_SERVICE if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's way to say: not installed
    try:
        import httpx  # noqa: F401  # they look once, when they are loaded
        import structlog  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


def serve(
    home: Home,
    role: Annotated[
        list[Role] | None, typer.Option("--role", help="Run only these parts; default: all.")
    ] = None,
) -> None:
    """Run the service. SIGTERM drains what is in hand and exits 0."""
    gc.disable()  # a fifth of the start is walking what stays for good; it begins when all runs
    _load_lean()
    from bridge.runtime.service import run
    from config import load

    sys.exit(run(load(home), frozenset(role or Role)))


def rotate_keys(
    home: Home,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Remove the old keys when all links have moved.")
    ] = False,
) -> None:
    """Seal links under a new key; a running service takes it up by itself."""
    from bridge.admin.key_rotation import rotate_keys as rotate
    from config import load

    done = rotate(load(home), drop_old=drop_old)
    print(f"key {done.key_id} seals now; {done.links} links moved to it")
    print(f"{done.kept} keys in the ring, {done.dropped} dropped")
    if done.unreadable:
        print(f"{done.unreadable} links are sealed under keys that nobody has", file=sys.stderr)


def _duration(text: str) -> float:
    from config.quantities import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _size(text: str) -> int:
    from config.quantities import parse_size

    try:
        return parse_size(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def prune(
    home: Home,
    older_than: Annotated[
        float | None, typer.Option(parser=_duration, metavar="AGE", help="Such as 90d or 12h.")
    ] = None,
    max_size: Annotated[
        int, typer.Option(parser=_size, metavar="SIZE", help="Such as 20GiB: the oldest go first.")
    ] = 0,
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write what goes into a file here first.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """
    Forget what is finished and older than AGE, or beyond SIZE; reports and the audit trail stay.

    With a message goes the memory of it: a sender that repeats it later sends a new message.
    """
    import json

    from bridge.admin.retention import prune_home
    from config import load

    if older_than is None and not max_size:
        raise typer.BadParameter("say how old (--older-than) or how much (--max-size)")
    counts = prune_home(load(home), older_than, max_size=max_size, archive=archive)
    if as_json:
        print(json.dumps(counts))
    else:
        print("\n".join(f"{name:<11}{count}" for name, count in counts.items()))
