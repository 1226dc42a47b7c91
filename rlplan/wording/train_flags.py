"""The flags of `rlplan train` that say what a trial is, for who reads them and for who writes them."""

# Field of the request → its flag and the key of the trial's configuration.
TRIAL_FLAGS = {
    "task": ("--task", "task.name"),
    "model": ("--model", "task.model"),
    "reward": ("--reward", "task.reward"),
    "validation": ("--validation", "task.validation_file"),
    "response_tokens": ("--response-tokens", "task.max_response_tokens"),
    "rollouts_per_prompt": ("--rollouts-per-prompt", "rollouts_per_prompt"),
    "prompts_per_batch": ("--prompts-per-batch", "prompts_per_batch"),
    "growth": ("--growth", "growth"),
    "learning_rate": ("--learning-rate", "learning_rate"),
    "seed": ("--seed", "seed"),
    "temperature": ("--temperature", "temperature"),
    "warmup": ("--warmup", "warmup_steps"),
    "problems": ("--problems", "validation.problems"),
    "samples": ("--samples", "validation.samples"),
    "validate_every": ("--validate-every", "validation.every_rollouts"),
    "device": ("--device", "machine.device"),
    "engine": ("--engine", "machine.engine"),
    "threads": ("--threads", "machine.threads"),
    "weights": ("--weights", "machine.weights"),
    "micro_batch_tokens": ("--micro-batch-tokens", "machine.micro_batch_tokens"),
    "compile": ("--compile", "machine.compile"),
}
