"""`bridge rotate-keys` and `bridge prune`: what an installation needs done from time to time."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import AsJson, Home


def rotate_keys(
    home: Home,
    drop_old: Annotated[
        bool, typer.Option("--drop-old", help="Remove the old keys when all links have moved.")
    ] = False,
) -> None:
    """Seal links under a new key; a running service takes it up by itself."""
    from bridge.wiring.rotating import rotate_keys as rotate
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

    from bridge.wiring.pruning import prune_home
    from config import load

    if older_than is None and not max_size:
        raise typer.BadParameter("say how old (--older-than) or how much (--max-size)")
    counts = prune_home(load(home), older_than, max_size=max_size, archive=archive)
    if as_json:
        print(json.dumps(counts))
    else:
        print("\n".join(f"{name:<11}{count}" for name, count in counts.items()))
