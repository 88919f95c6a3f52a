"""What helm prints after an installation works without a checkout."""

from __future__ import annotations

from swerl_api.names import INSTALL_KUBERAY, KUBERAY_RELEASE

from tests.unit.docs.pages import ROOT

NOTES = (ROOT / "charts/templates/NOTES.txt").read_text()


def test_notes_name_no_file_of_the_repository() -> None:
    assert "examples/" not in NOTES and "-f swerljob.yaml" not in NOTES


def test_notes_name_the_commands_that_install_kuberay() -> None:
    assert KUBERAY_RELEASE in INSTALL_KUBERAY
    commands = [*KUBERAY_RELEASE.split(" && "), "--set kuberay.install=true"]
    assert [command for command in commands if command not in NOTES] == []


def test_notes_of_an_installation_say_how_old_crds_are_written() -> None:
    noted = NOTES.partition("{{- if .Release.IsInstall }}")[2].partition("{{- end }}")[0]
    assert "CRDs of an earlier release" in noted and "run `helm upgrade`" in noted
