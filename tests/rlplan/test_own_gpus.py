"""The GPUs that a plan has where nobody gives any: those that are here, else whole nodes by its budget."""

import pytest

from rlplan.actions.configuration import catalogue_name
from tests.rlplan.conftest import Run


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100-80"),
        ("NVIDIA A100-PCIE-40GB", "a100-40"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA L40S", "l40s"),
        ("H200", "h200"),  # as Ray calls them
        ("AMD Instinct MI300X", "mi300x"),
        ("Tesla T4", None),
    ],
)
def test_a_device_has_its_name_in_the_catalogue(device: str, name: str | None) -> None:
    assert catalogue_name(device) == name


@pytest.mark.parametrize(
    ("asked", "gpus"),
    [
        (("--budget", "1000"), 8),
        (("--budget", "5000"), 32),
        (("--budget", "$12500"), 32),  # at 2.5 dollars a GPU-hour
        (("--budget", "500", "--model", "llama-3.1-70b"), 32),  # as many as it fits
        (("--budget", "5000", "--gpus", "16"), 16),
    ],
)
def test_a_budget_is_ended_within_a_week_on_whole_nodes(run: Run, asked: tuple[str, ...], gpus: int) -> None:
    plan = run.json("propose", *asked)
    hardware = plan["hardware"]
    assert (hardware["gpus"], hardware["gpus_per_trial"] % 8) == (gpus, 0)
    first = run("propose", *asked).out.splitlines()[0]
    assert ("(--gpus)" in first) == ("--gpus" not in asked)


def test_a_part_of_a_node_is_for_who_says_that_others_use_the_rest(run: Run) -> None:
    asked = ("propose", "--budget", "300", "--model", "qwen2.5-1.5b", "--gpus", "8")
    assert run.json(*asked)["hardware"]["gpus_per_trial"] == 8
    parts = run.json(*asked, "--count-busy-only")["layouts"]
    assert min(layout["gpus_per_trial"] for layout in parts) < 8


@pytest.mark.parametrize(
    ("text", "says"), [("$", "dollars above zero"), ("$-3", "dollars above zero"), ("x", "GPU-hours")]
)
def test_an_amount_that_is_none_is_refused(run: Run, text: str, says: str) -> None:
    refused = run("propose", "--budget", text)
    assert refused.code == 2
    assert says in refused.err
