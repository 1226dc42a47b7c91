"""A package that is missing is named with what brings it."""

import sys

import pytest

from rlplan.cli import app


@pytest.mark.parametrize("package", ["anyio", "mcp", "mcp_types", "jsonschema"])
def test_without_its_extra_the_server_says_how_to_install_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == package or name.startswith("rlplan.agents")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit) as end:
        app(["mcp"])
    assert end.value.code == 2
    assert "pip install 'rlplan[mcp]'" in capsys.readouterr().err
