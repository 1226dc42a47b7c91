"""OpenRLHF's data file is as long as any trial may become, as SkyRL's is."""

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import get_scheduler

from budgets.errors import InputError
from runner.trainers.catalogue import reaching
from runner.trainers.launch import opened_task
from runner.trainers.openrlhf.driver import DRIVER
from tests.runner.trainers.standins import attempt, launched, trial


def test_the_warm_up_is_so_many_updates_although_openrlhf_knows_a_share_of_the_file_alone(tmp_path: Path) -> None:
    for steps in (0, 1, 7, 10, 320, 2000):
        config = trial("openrlhf", warmup_steps=steps)
        given = DRIVER.job(config, opened_task(config), attempt(tmp_path)).keys
        rows = json.loads(launched(config, attempt(tmp_path)).files["run.json"])["order"]["rows"]
        updates = rows * given["rollout.n_samples_per_prompt"] // given["train.batch_size"]  # its prepare_datasets
        assert math.ceil(updates * given["actor.lr_warmup_ratio"]) == steps


@pytest.mark.parametrize("warmup", [0, 1, 7])
def test_openrlhfs_rate_rises_from_the_first_update_and_then_stays(warmup: int, tmp_path: Path) -> None:
    config = trial("openrlhf", warmup_steps=warmup)
    given = DRIVER.job(config, opened_task(config), attempt(tmp_path)).keys
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_scheduler(  # as its _ds_init_train_model calls it
        given["actor.lr_scheduler"],
        optimizer,
        num_warmup_steps=warmup,
        num_training_steps=2000,
        scheduler_specific_kwargs={"min_lr_rate": given["actor.min_lr_ratio"]},
    )
    rates = []
    for _ in range(12):
        rates += schedule.get_last_lr()
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([min(1.0, (step + 1) / max(1, warmup)) for step in range(12)])


def test_a_segment_beyond_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"step 31 lies beyond .*horizon_steps = 30"):
        launched(trial("openrlhf", options={"horizon_steps": 30}), attempt(tmp_path, to_step=31))


@pytest.mark.parametrize(("trainer", "changed"), [("openrlhf", True), ("skyrl", True), ("verl", False)])
def test_a_final_run_beyond_the_data_file_gets_a_longer_one(trainer: str, changed: bool) -> None:
    config = trial(trainer)
    assert reaching(config, 2000) is config
    longer = reaching(config, 2001)
    assert (longer != config) is changed
    assert (longer.trainer is not None and longer.trainer.options.get("horizon_steps") == 2001) is changed
