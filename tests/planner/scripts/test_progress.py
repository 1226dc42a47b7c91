from planner.scripts.records import Step, progress_of


def test_time_and_cost_go_on_as_the_newest_steps_do_and_the_best_is_named() -> None:
    early = [Step(step, None, {}, 200.0, {"zero_variance_share": 1.0}) for step in range(1, 11)]
    late = [Step(step, 0.5 if step != 20 else 0.7, {}, 90.0, {"zero_variance_share": 0.4}) for step in range(11, 31)]
    found = progress_of([*early, *late], 50, 8, 2.0)
    assert found is not None
    assert (found.step, found.best, found.now, found.dead_groups) == (30, (20, 0.7), (30, 0.5), 0.4)
    assert (found.seconds, found.seconds_per_step, found.seconds_left) == (3800.0, 90.0, 1800.0)
    assert found.gpu_hours == (3800 * 8 / 3600, 5600 * 8 / 3600)


def test_what_no_log_says_is_not_made_up() -> None:
    found = progress_of([Step(1, None, {}, None, {})], None, 8)
    assert found is not None
    assert (found.seconds_per_step, found.seconds_left, found.gpu_hours, found.best) == (None, None, None, None)
    assert progress_of([Step(0, 0.2, {}, None, {})], None) is None
