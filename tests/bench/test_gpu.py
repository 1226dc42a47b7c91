"""What is measured on a GPU runs on any machine, and says what is not there."""

import re
import subprocess
import sys

import pytest

from tests.docs.lines import ROOT


@pytest.mark.soak
def test_every_check_that_can_be_made_here_works() -> None:
    command = [sys.executable, "bench/gpu.py", "--trl-python", "/nowhere/python"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    verdicts = dict(re.findall(r"^(\S.*?) {2,}(works|left out|FAILED) ", ran.stdout, re.MULTILINE))
    assert verdicts["device"] == verdicts["out of memory"] == verdicts["builtin, torch engine"] == "works"
    assert verdicts["TRL"] == "left out"
    assert "whole update" in ran.stdout
