"""`bridge init`, `check`, `migrate`, `serve`, `rotate-keys`, `prune`."""

import gc
import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home
from bridge.cli.output import interruptible, shown_progress
from bridge.roles import Role


def init(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="The folder to create.")],
) -> None:
    """Create a data directory: settings, mappings, secrets. Never overwrites."""
    from bridge.admin.installation.data_directory import create_data_directory

    written, kept = create_data_directory(home)
    for path in written:
        print(f"wrote {path}")
    for path in kept:
        print(f"kept  {path}")


def check(
    home: Home,
    live: Annotated[
        bool, typer.Option("--live", help="Contact every peer: connections, TLS, folders, service.")
    ] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Correct files that other accounts can access.")
    ] = False,
) -> None:
    """Check settings, mappings, keys, databases and connections; list every mistake."""
    from bridge.admin.checks.checks import CheckSeverity, check_home, check_protections, fix_home

    if fix:
        fix_home(home)  # the check below lists the rest
    findings = check_home(home) + check_protections()
    if live:
        from bridge.admin.checks.live import check_live

        findings += check_live(home)
    for finding in findings:
        print(f"{finding.severity:<7} {finding.place}: {finding.message}")
    if any(finding.severity is CheckSeverity.ERROR for finding in findings):
        sys.exit(1)
    print("ok")


def migrate(home: Home) -> None:
    """Migrate the databases of a data directory to the schema of this release."""
    from bridge.admin.access.access_administration import upgrade_databases

    state = "each database is as before, or migrated completely; run the command again"
    with interruptible(state), shown_progress() as report:
        report("migrating the databases", 0, 0)
        done = upgrade_databases(home)
    for name, revisions in done.items():
        print(f"{name}: {', '.join(revisions)}")


_OPTIONAL_LIBRARIES = ("rich", "pygments", "greenlet", "PIL", "numpy")
"""Libraries for terminals, threads and images that others load if they are installed."""


def _load_without_optional_libraries() -> None:
    """Load libraries without what is optional to them, which saves forty megabytes."""
    hidden = [name for name in _OPTIONAL_LIBRARIES if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]  # Python then raises ImportError
    try:
        import httpx  # noqa: F401  # they look for the others once, on import
        import pydicom  # noqa: F401  # the pixels of objects are never decoded
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
    """Run the service. SIGTERM finishes the work in progress and exits 0."""
    gc.disable()  # collecting takes a fifth of the start; the service enables it when it runs
    _load_without_optional_libraries()
    from bridge.runtime.service import run
    from config import load

    sys.exit(run(load(home), frozenset(role or Role)))


def rotate_keys(
    home: Home,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Remove the old keys when all links are resealed.")
    ] = False,
) -> None:
    """Seal links with a new key; a running service uses it without a restart."""
    from bridge.admin.installation.key_rotation import rotate_keys as rotate
    from config import load

    state = (
        "old and new keys are in the ring, and all links work; run the command again to seal the"
        " other links with a new key"
    )
    with interruptible(state), shown_progress() as report:
        done = rotate(load(home), drop_old=drop_old, report=report)
    print(f"key {done.key_id} is active; {done.links} links resealed")
    print(f"{done.kept} keys in the ring, {done.dropped} dropped")
    if done.unreadable:
        print(f"{done.unreadable} links are sealed with unknown keys", file=sys.stderr)


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
        int,
        typer.Option(
            parser=_size, metavar="SIZE", help="Such as 20GiB: the oldest are removed first."
        ),
    ] = 0,
    archive: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write removed rows to files here first.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """
    Remove finished messages and deliveries older than AGE, or beyond SIZE.

    Reports and the audit trail are kept. If a sender repeats a removed message, it is processed as
    a new message.
    """
    import json

    from bridge.admin.installation.retention import prune_home
    from config import load

    if older_than is None and not max_size:
        raise typer.BadParameter("give --older-than or --max-size")
    state = "what was removed until now is removed completely; run the command again for the rest"
    with interruptible(state), shown_progress() as report:
        counts = prune_home(
            load(home), older_than, max_size=max_size, archive=archive, report=report
        )
    if as_json:
        print(json.dumps(counts))
    else:
        print("\n".join(f"{name:<11}{count}" for name, count in counts.items()))
