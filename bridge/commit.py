"""The commit of the running program; it imports nothing of ours, as `web/build.py` runs it too."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
COMMIT_FILE = "commit.txt"
"""Beside this module in a wheel; `web/build.py` writes it."""

_SHOWN = 12  # characters of a commit's hash, enough to be unique


def running_commit(package: Path = _PACKAGE) -> str | None:
    """Return the short hash of the commit that runs, or None if nothing tells it."""
    commit = commit_of(package.parent) or _read(package / COMMIT_FILE)
    is_hash = len(commit) in (40, 64) and all(digit in "0123456789abcdef" for digit in commit)
    return commit[:_SHOWN] if is_hash else None


def commit_of(checkout: Path) -> str:
    """Return the commit of a checkout, or an empty text; does not need the git program."""
    folder = checkout / ".git"
    pointer = _read(folder)  # in a worktree, `.git` is a file that names the folder
    if pointer.startswith("gitdir: "):
        folder = checkout / pointer.removeprefix("gitdir: ")
    head = _read(folder / "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = folder / (
        _read(folder / "commondir") or "."
    )  # branches of a worktree are in the clone
    packed = (line.split(" ") for line in _read(shared / "packed-refs").splitlines())
    return _read(shared / name) or next((line[0] for line in packed if line[1:] == [name]), "")


def _read(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
