#!/usr/bin/env bash
# A run without a fault: it is left alone, and nothing but its own hours is paid.
# `rlplan propose --task sum-hard --budget 0.05 --from examples/sum_hard/good_rate.sh` starts it and looks.
python3 -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo \
  data.train_batch_size=64 \
  data.max_response_length=7 \
  actor_rollout_ref.model.path=tiny-sums \
  actor_rollout_ref.rollout.n=8 \
  actor_rollout_ref.actor.ppo_mini_batch_size=64 \
  actor_rollout_ref.actor.optim.lr=4.2e-4 \
  trainer.n_gpus_per_node=2 \
  trainer.total_training_steps=500
