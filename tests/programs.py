"""
What a machine may lack: programs, a library, a device, a right.

A test that needs one of them has the mark `needs`, or its fixture calls `require`. Both skip the
test; the summary of the run then names what is missing once, with the way to get it.
`python -m tests.programs` prints the Debian packages that this machine lacks.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pytest
from typing_extensions import override

_INSTALL = "apt-get install "


@dataclass(frozen=True)
class Requirement:
    """Something that a machine may lack; `find` returns where it is, or None."""

    name: str
    used_by: str
    remedy: str
    find: Callable[[], str | None]

    @cached_property
    def path(self) -> str | None:
        """Where it is, or None; searched once in each process."""
        return self.find()

    def require(self) -> str:
        if self.path is None:
            pytest.skip(str(self))
        return self.path

    @override
    def __str__(self) -> str:
        return f"no {self.name} here, for {self.used_by}: {self.remedy}"


def exit_without(*requirements: Requirement) -> None:
    """End a command that needs what is not here; say how to get it."""
    if missing := [str(requirement) for requirement in requirements if requirement.path is None]:
        sys.exit("\n".join(missing))


def find_program(*names: str) -> str | None:
    """Find a program on PATH, or in the `sbin` beside a `bin` of PATH."""
    folders = [folder for folder in os.get_exec_path() if folder]
    beside = [str(Path(folder).parent / "sbin") for folder in folders]
    for name in names:
        if found := shutil.which(name, path=os.pathsep.join([*folders, *beside])):
            return found
    return None


def _program(name: str, used_by: str, package: str, *commands: str) -> Requirement:
    return Requirement(name, used_by, f"{_INSTALL}{package}", partial(find_program, *commands))


def _find_libfuse() -> str | None:
    """Load the library as the recording disk does, in a process of its own."""
    command = [sys.executable, "-c", "import mfusepy; print(mfusepy._libfuse_path)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _find_fuse_device() -> str | None:
    path = "/dev/fuse"
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        return None
    return path


def _find_right_to_mount() -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
            subprocess.run(mount, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        subprocess.run(["umount", "-l", folder], check=True)
    return "mount"


BASH = _program("bash", "the commands of the guides", "bash", "bash")
CHROMIUM = _program(
    "Chromium",
    "the pages in a browser",
    "chromium fonts-liberation",
    "chromium",
    "chromium-browser",
)
HEADLESS_SHELL = _program(
    "Chromium's headless shell",
    "the pages in a browser without windows, in half of the processor time",
    "chromium-headless-shell",
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
)
# pynetdicom brings programs with the names of others, such as findscu.
DCMTK = _program("DCMTK", "modalities and archives that speak DICOM", "dcmtk", "dump2dcm")
HAPROXY = _program("HAProxy", "clusters behind a load balancer", "haproxy", "haproxy")
JAVA = _program("Java", "the models of the queues", "default-jre-headless", "java")
ORTHANC = _program(
    "Orthanc",
    "a PACS that speaks DICOM and DICOMweb",
    "orthanc orthanc-dicomweb",
    "Orthanc",
)
STRACE = _program("strace", "failing system calls", "strace", "strace")
SYSTEMD_ANALYZE = _program("systemd-analyze", "the systemd unit", "systemd", "systemd-analyze")

LIBFUSE = Requirement(
    "FUSE library", "power cuts and failing disks", f"{_INSTALL}fuse3", _find_libfuse
)
FUSE_DEVICE = Requirement(
    "device /dev/fuse",
    "power cuts and failing disks",
    "load the kernel's module (modprobe fuse); in a container: --device /dev/fuse",
    _find_fuse_device,
)
RIGHT_TO_MOUNT = Requirement(
    "right to mount a file system",
    "full and failing disks",
    "run the tests as root; in a container: --cap-add SYS_ADMIN",
    _find_right_to_mount,
)
FUSE = (LIBFUSE, FUSE_DEVICE, RIGHT_TO_MOUNT)
"""What the recording disk needs."""

OF_THE_TESTS = (
    BASH, CHROMIUM, HEADLESS_SHELL, DCMTK, HAPROXY, ORTHANC, STRACE, SYSTEMD_ANALYZE, *FUSE,
)  # fmt: skip
"""What `make test` uses."""


def main() -> None:
    """Print the packages that the tests need and this machine lacks (`.ci/run`)."""
    missing = [item.remedy for item in OF_THE_TESTS if item.path is None]
    packages = [text.removeprefix(_INSTALL) for text in missing if text.startswith(_INSTALL)]
    print(*packages)  # noqa: T201  # a command's output


if __name__ == "__main__":
    main()
