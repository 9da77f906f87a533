"""`bridge --version` prints the release and the commit that runs."""

import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge import __version__
from bridge.cli.application import application
from bridge.commit import COMMIT_FILE, running_commit
from tests.acceptance.house import bridge

AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *AUTHOR, *arguments]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "bridge").mkdir(parents=True)
    (folder / "bridge" / "__init__.py").touch()
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "One")
    return folder


def test_version() -> None:
    """The command prints one line, and reads and creates no files."""
    result = CliRunner().invoke(application, ["--version"])
    commit = running_commit()
    build = f"build {commit}" if commit else "unknown build"
    assert (result.exit_code, result.stdout) == (0, f"Report Bridge {__version__} ({build})\n")
    assert bridge("--version") == result.stdout


def prepare(checkout: Path, state: str) -> Path:
    if state == "branch with packed references":
        git(checkout, "tag", "--annotate", "v1", "--message", "one")
        git(checkout, "pack-refs", "--all")
    elif state == "detached":
        git(checkout, "checkout", "--quiet", "--detach")
    elif state in ("worktree", "worktree on a branch with packed references"):
        folder = checkout.parent / "worktree"
        git(checkout, "worktree", "add", "--quiet", "-b", "topic/a", str(folder))
        git(folder, "commit", "--quiet", "--allow-empty", "--message", "Two")
        if state != "worktree":
            git(checkout, "pack-refs", "--all")
        return folder
    elif state == "shallow clone":
        folder = checkout.parent / "clone"
        git(checkout.parent, "clone", "--quiet", "--depth", "1", checkout.as_uri(), str(folder))
        return folder
    return checkout


@pytest.mark.parametrize(
    "state",
    [
        "branch",
        "branch with packed references",
        "detached",
        "worktree",
        "worktree on a branch with packed references",
        "shallow clone",
    ],
)
def test_a_checkout_names_its_commit(
    checkout: Path, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build is the commit that is checked out, without the git program."""
    folder = prepare(checkout, state)
    commit = git(folder, "rev-parse", "HEAD")
    monkeypatch.setenv("PATH", "")
    assert running_commit(folder / "bridge") == commit[:12]


def test_an_installation_names_the_commit_of_its_wheel(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    shutil.rmtree(checkout / ".git")
    (checkout / "bridge" / COMMIT_FILE).write_text(f"{commit}\n")
    assert running_commit(checkout / "bridge") == commit[:12]


@pytest.mark.parametrize(
    ("file", "content"),
    [
        (".git", None),
        (".git", b""),
        (".git", b"gitdir: /nowhere\n"),
        (".git/HEAD", b""),
        (".git/HEAD/a-folder", b""),
        (".git/HEAD", b"ref: refs/heads/none\n"),
        (".git/HEAD", b"\xff\xfe\n"),
        (".git/HEAD", b"not a commit\n"),
        (".git/HEAD", b"ref: refs/heads/with\0zero\n"),
        (f"bridge/{COMMIT_FILE}", b"$Format:%H$\n"),
    ],
)
def test_an_unknown_commit_is_no_error(tmp_path: Path, file: str, content: bytes | None) -> None:
    """A folder without a readable commit has no build."""
    (tmp_path / "bridge").mkdir()
    if content is not None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_bytes(content)
    assert running_commit(tmp_path / "bridge") is None
