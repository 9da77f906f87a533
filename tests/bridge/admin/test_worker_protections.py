"""`bridge check` lists the protections that confine hooks on this machine."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.admin.checks.checks import check_protections, protection_findings
from bridge.admin.checks.findings import CheckSeverity
from bridge.admin.data_directory import create_data_directory
from bridge.cli.application import application
from bridge.workers.confinement import ALL_PROTECTIONS, FILTER, LANDLOCK, NAMESPACES


def test_all_are_listed() -> None:
    """With all protections the check has one note and no warning."""
    (note,) = protection_findings(ALL_PROTECTIONS)
    assert note.severity is CheckSeverity.NOTE
    assert all(each in note.message for each in ALL_PROTECTIONS)


def test_none_is_a_warning() -> None:
    """Without protections the check warns, because hooks have the rights of the service."""
    (warning,) = protection_findings([])
    assert (warning.severity, "no protection is active" in warning.message) == (
        CheckSeverity.WARNING,
        True,
    )


def test_missing_protections_are_named() -> None:
    """The note names missing protections, but not namespaces if the filter allows no socket."""
    _, warning = protection_findings(
        [each for each in ALL_PROTECTIONS if each not in (LANDLOCK, NAMESPACES)]
    )
    assert LANDLOCK in warning.message
    assert NAMESPACES not in warning.message
    _, warning = protection_findings(
        [each for each in ALL_PROTECTIONS if each not in (FILTER, NAMESPACES)]
    )
    assert NAMESPACES in warning.message


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have other protections")
def test_the_command_lists_them(tmp_path: Path) -> None:
    create_data_directory(tmp_path / "home")
    printed = CliRunner().invoke(application, ["check", "--home", str(tmp_path / "home")]).stdout
    for each in check_protections():
        assert f"{each.severity:<7} worker processes: {each.message}" in printed
