"""Does: GRPO training, rollout engines, tasks, backends; imports planner and budgets, and heavy libraries only late."""
