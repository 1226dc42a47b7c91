"""Logs as trainers print them, written by hand in their formats."""

from pathlib import Path

from tests.planner.curves.reading_samples import write

RAY = "\x1b[36m(TaskRunner pid=4711)\x1b[0m "
VERL = [
    "2025-06-01 10:00:00,000\tINFO worker.py:1832 -- Started a local Ray instance.",
    f"{RAY}{{'actor_rollout_ref': {{'actor': {{'clip_ratio': 0.2,",
    f"""{RAY}"Initial validation metrics: {{'val-core/openai/gsm8k/reward/mean@4': 0.25}}\"""",
    f"{RAY}step:0 - val-core/openai/gsm8k/reward/mean@4:0.25",
    f"{RAY}Training Progress:   0%|          | 0/4 [00:00<?, ?it/s]",
    f"{RAY}step:1 - training/global_step:1 - actor/pg_loss:-0.01 - actor/grad_norm:np.float64(0.75) - "
    "actor/entropy:0.5 - critic/score/mean:0.3 - response_length/mean:120.5 - timing_s/gen:10.5 - timing_s/reward:1.0"
    " - timing_s/old_log_prob:2.0 - timing_s/ref:1.5 - timing_s/update_actor:4.0 - timing_s/step:20.0"
    "\x1b[32m [repeated 2x across cluster]\x1b[0m",
    f"{RAY}step:2 - val-core/openai/gsm8k/reward/mean@4:np.float64(0.4) - val-aux/openai/gsm8k/reward/best@4/mean:0.6"
    " - training/global_step:2 - actor/pg_loss:1e-05 - actor/grad_norm:nan - actor/entropy:0.4 - critic/score/mean:0.35"
    " - response_length/mean:130.5 - timing_s/gen:11.5 - timing_s/update_actor:4.5 - timing_s/testing:7.0"
    " - timing_s/step:21.0",
    f"{RAY}(WorkerDict pid=99) some warning about step:7 of something",
]
OPENRLHF = [
    "2026-01-01 00:00:00 INFO ppo_trainer.py:547 -- ✨ Global step 1: {'policy_loss': 0.01, 'actor_grad_norm': 0.5, "
    "'rollout/reward_mean': 0.2, 'rollout/response_length_mean': 90.0, 'rollout/num_samples': 64.0, "
    "'timing/generation': 12.0, 'timing/make_experience': 3.0, 'timing/ppo_train': 5.0, 'timing/broadcast': 1.0, "
    "'timing/step_total': 21.0}",
    "(PPOTrainer pid=7) ✨ Evaluation completed in 0:01:05, global_step 1, eval_metrics: {'eval_math_pass8': 0.7, "
    "'eval_math_pass1': 0.31, 'eval_math_response_length_mean': 99.0, 'eval_num_samples': 64}",
    "(PPOTrainer pid=7) ✨ Global step 2: {'policy_loss': nan, 'kl': tensor(0.002), 'rollout/reward_mean': 0.25, "
    "'timing/generation': 11.0}",
    "(PPOTrainer pid=7) ✨ Evaluation completed in 0:01:00, global_step 2, eval_metrics: {'eval_math_pass8': 0.75, "
    "'eval_math_pass1': 0.36}",
]
TRL = [
    "Loading checkpoint shards: 100%|██████████| 2/2 [00:01<00:00,  1.5it/s]",
    "\r  0%|          | 0/40 [00:00<?, ?it/s]\r  5%|▌         | 2/40 [00:30<09:30,  6.00s/it]",
    "{'loss': 0.001, 'grad_norm': 1.5, 'completions/mean_length': 80.0, 'rewards/accuracy/mean': 0.25, 'reward': 0.25, "
    "'frac_reward_zero_std': 0.5, 'step_time': 6.0, 'epoch': 0.05}",
    "\r 50%|█████     | 1/2 [00:03<00:03,  3.00s/it]",
    "{'eval_loss': 0.0, 'eval_reward': 0.2, 'eval_rewards/accuracy/mean': 0.2, 'eval_runtime': 9.0, 'epoch': 0.05}",
    "\r 10%|█         | 4/40 [01:00<09:00,  6.00s/it]",
    "{'loss': '0.002', 'grad_norm': '1.25', 'reward': '0.5', 'rewards/accuracy/mean': '0.5', 'epoch': '0.1'}",
    "{'eval_loss': '0', 'eval_reward': '0.4', 'eval_rewards/accuracy/mean': '0.4', 'epoch': '0.1'}",
    "{'train_runtime': 61.2, 'train_loss': 0.0015}",
]
AREAL = [
    "20260101-10:00:00.123 StatsLogger INFO: Epoch 1/2 Step 1/50 Train step 1/100 done.",
    "20260101-10:00:00.124 StatsLogger INFO: Stats (1/1):",
    "20260101-10:00:00.124 StatsLogger INFO: ",
    "╒═══════════════════════╤════════════╤══════════════════╤════════════╕",
    "│ ppo_actor/update/grad_norm │ 5.0000e-01 │ timeperf/rollout │ 1.2500e+01 │",
    "├───────────────────────┼────────────┼──────────────────┼────────────┤",
    "│ eval-rollout/reward   │ 3.0000e-01 │ rollout/reward   │ 2.5000e-01 │",
    "╘═══════════════════════╧════════════╧══════════════════╧════════════╛",
    "\x1b[35m20260101-10:01:00.123 StatsLogger INFO: Epoch 1/2 Step 2/50 Train step 2/100 done.\x1b[0m",
    "│ eval-rollout/reward   │ 4.0000e-01 │ rollout/reward   │ 3.5000e-01 │",
]


def log(path: Path, lines: list[str]) -> Path:
    """Write a log of whole lines."""
    return write(path, "".join(f"{line}\n" for line in lines))
