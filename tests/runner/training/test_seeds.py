from runner.training.prompts import derive


def test_seeds_never_change() -> None:
    assert derive(0, "rollouts", 1, 0) == 5640297565346739423


def test_every_purpose_has_its_own() -> None:
    drawn = {derive(seed, purpose, step) for seed in (0, 1) for purpose in ("a", "b") for step in range(50)}
    assert len(drawn) == 200
    assert max(drawn) < 2**63
