from pathlib import Path
from typing import Any

import pytest

from planner.config import Layer, build_request, resolve
from planner.proposals import Proposal, propose
from rlplan.wording.assumptions import Assumption, assumptions


def assumed(source: str, workload: dict[str, Any]) -> tuple[Proposal, list[Assumption]]:
    resolved = resolve([Layer(source, {"budget": {"gpu_hours": 5000.0}, "workload": workload})])
    proposal = propose(build_request(resolved))
    return proposal, assumptions(proposal, resolved)


@pytest.mark.parametrize(
    ("own", "prompts", "source"),
    [
        ({}, 2000, "one a pass rate; if these are a sample, set prompt_set_size"),
        ({"prompt_set_size": 9000}, 9000, "test"),
    ],
)
def test_the_prompts_are_counted_or_given(tmp_path: Path, own: dict[str, int], prompts: int, source: str) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("pass_rate\n" + "0.5\n0.25\n" * 1000)
    told = {each.what: each for each in assumed("test", {"pass_rates_file": str(file), **own})[1]}
    assert (told["prompts"].value, told["prompts"].source) == (f"{prompts:,} of 256 tokens", source)
    assert told["base pass rate"].source == "measured, your file, column 'pass_rate'"


def test_a_given_mean_response_makes_the_price_surer_and_an_open_one_is_asked_for_first() -> None:
    model = {"model": "qwen2.5-7b"}
    found = [assumed("--file", model | given) for given in ({"mean_response_tokens": 1500.0}, {})]
    widths = [proposal.candidates[0].cell.cost.log_sd for proposal, _ in found]
    given, left_open = (told[0] for _, told in found)

    assert widths[0] < widths[1]
    assert given.what == left_open.what == "responses"
    assert given.source == "--file"
    assert left_open.source.startswith("expected of a base model")
    assert "give --mean-response-tokens, it decides the price by a factor of" in left_open.source
