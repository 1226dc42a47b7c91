"""What each shipped recipe costs, for tests that need a recipe's traits and not its file."""

from budgets.workload import RecipeTraits

_LIST = (
    RecipeTraits("grpo"),
    RecipeTraits("dr-grpo"),
    RecipeTraits("dapo", updates_per_batch=16, refills_groups=True),
    RecipeTraits("gspo", updates_per_batch=4),
    RecipeTraits("cispo", updates_per_batch=16),
    RecipeTraits("minimax", updates_per_batch=8, drops_groups=True),
    RecipeTraits("magistral", staleness_bound=8, drops_groups=True),
    RecipeTraits("scalerl", staleness_bound=8, drops_groups=True, interrupted_from=0.6975, interrupted_until=0.8371),
    RecipeTraits("easy", reference_pass=True),
    RecipeTraits("hard"),
)
TRAITS = {traits.name: traits for traits in _LIST}
