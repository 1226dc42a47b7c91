CREATE TABLE plans (
    id INTEGER NOT NULL, name VARCHAR NOT NULL, created_at DATETIME NOT NULL, budget_gpu_hours DOUBLE NOT NULL,
    pilot_gpu_hours DOUBLE NOT NULL, final_gpu_hours DOUBLE NOT NULL, recipe VARCHAR NOT NULL,
    difficulty VARCHAR NOT NULL, workload JSON NOT NULL, hardware JSON NOT NULL, config JSON NOT NULL,
    assumptions JSON NOT NULL, outlook JSON NOT NULL, rlplan_version VARCHAR NOT NULL,
    CONSTRAINT pk_plans PRIMARY KEY (id), CONSTRAINT ck_plans_budget CHECK (budget_gpu_hours > 0),
    CONSTRAINT ck_plans_pilot CHECK (pilot_gpu_hours >= 0), CONSTRAINT ck_plans_final CHECK (final_gpu_hours >= 0),
    CONSTRAINT ck_plans_split CHECK (pilot_gpu_hours + final_gpu_hours <= budget_gpu_hours * (1 + 1e-9)),
    CONSTRAINT uq_plans_name UNIQUE (name)
);
CREATE TABLE candidates (
    id INTEGER NOT NULL, plan_id INTEGER NOT NULL, rank INTEGER NOT NULL, rollouts_per_prompt INTEGER NOT NULL,
    prompts_per_batch INTEGER NOT NULL, update_steps INTEGER NOT NULL, pilot_steps INTEGER NOT NULL,
    gpu_hours_per_step DOUBLE NOT NULL, gpu_hours_per_step_low DOUBLE NOT NULL,
    gpu_hours_per_step_high DOUBLE NOT NULL, segment_steps INTEGER NOT NULL, pilot_gpu_hours DOUBLE NOT NULL,
    learning_rate DOUBLE NOT NULL, epochs DOUBLE NOT NULL, signal_fraction DOUBLE NOT NULL, expected_score DOUBLE,
    score_low DOUBLE, score_high DOUBLE, pilot_reason TEXT NOT NULL, notes JSON NOT NULL, recipe VARCHAR,
    axes VARCHAR DEFAULT '{}' NOT NULL, pilot_gpu_hours_per_step DOUBLE,
    CONSTRAINT pk_candidates PRIMARY KEY (id), CONSTRAINT uq_candidates_plan_id_rank UNIQUE (plan_id, rank),
    CONSTRAINT uq_candidates_configuration UNIQUE (plan_id, rollouts_per_prompt, prompts_per_batch, axes),
    CONSTRAINT fk_candidates_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id) ON DELETE CASCADE
);
CREATE TABLE sweeps (
    id INTEGER NOT NULL, plan_id INTEGER NOT NULL, name VARCHAR NOT NULL, created_at DATETIME NOT NULL,
    finished_at DATETIME, status VARCHAR(16) NOT NULL, policy VARCHAR NOT NULL, seed BIGINT NOT NULL,
    config JSON NOT NULL, config_hash VARCHAR NOT NULL, code_hash VARCHAR, driver_id VARCHAR, driver_host VARCHAR,
    driver_pid INTEGER, heartbeat_at DATETIME,
    CONSTRAINT pk_sweeps PRIMARY KEY (id),
    CONSTRAINT fk_sweeps_plan_id FOREIGN KEY(plan_id) REFERENCES plans (id) ON DELETE CASCADE,
    CONSTRAINT uq_sweeps_name UNIQUE (name),
    CONSTRAINT ck_sweeps_status CHECK (status IN ('created', 'running', 'interrupted', 'finished', 'failed'))
);
CREATE INDEX ix_sweeps_plan_id ON sweeps (plan_id);
CREATE TABLE charges (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, at DATETIME NOT NULL, worker VARCHAR NOT NULL,
    kind VARCHAR NOT NULL, gpu_hours DOUBLE NOT NULL,
    CONSTRAINT pk_charges PRIMARY KEY (id),
    CONSTRAINT fk_charges_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE
);
CREATE INDEX ix_charges_sweep_id ON charges (sweep_id);
CREATE TABLE experiences (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, made_at DATETIME NOT NULL, configurations INTEGER NOT NULL,
    curves INTEGER NOT NULL, content JSON NOT NULL,
    CONSTRAINT pk_experiences PRIMARY KEY (id), CONSTRAINT uq_experiences_sweep_id UNIQUE (sweep_id),
    CONSTRAINT fk_experiences_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE
);
CREATE TABLE recommendations (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, made_at DATETIME NOT NULL, rollouts_per_prompt INTEGER NOT NULL,
    prompts_per_batch INTEGER NOT NULL, update_steps INTEGER NOT NULL, learning_rate DOUBLE NOT NULL,
    recipe VARCHAR NOT NULL, expected_score DOUBLE NOT NULL, score_low DOUBLE NOT NULL, score_high DOUBLE NOT NULL,
    probability_best DOUBLE NOT NULL, expected_regret DOUBLE NOT NULL, gpu_hours_to_target DOUBLE NOT NULL,
    details JSON NOT NULL, axes VARCHAR DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_recommendations PRIMARY KEY (id),
    CONSTRAINT fk_recommendations_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE
);
CREATE INDEX ix_recommendations_sweep_id ON recommendations (sweep_id);
CREATE TABLE requests (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, at DATETIME NOT NULL, kind VARCHAR(16) NOT NULL,
    "by" VARCHAR NOT NULL, taken_at DATETIME, ended_at DATETIME, note TEXT,
    CONSTRAINT pk_requests PRIMARY KEY (id),
    CONSTRAINT fk_requests_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT ck_requests_kind CHECK (kind IN ('pause', 'resume', 'stop'))
);
CREATE INDEX ix_requests_sweep_id_ended_at ON requests (sweep_id, ended_at);
CREATE TABLE trials (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, candidate_id INTEGER, name VARCHAR NOT NULL,
    rollouts_per_prompt INTEGER NOT NULL, prompts_per_batch INTEGER NOT NULL, learning_rate DOUBLE NOT NULL,
    recipe VARCHAR NOT NULL, seed BIGINT NOT NULL, config JSON NOT NULL, state VARCHAR(16) NOT NULL,
    attempt INTEGER NOT NULL, gpu_hours_spent DOUBLE NOT NULL, checkpoint_path TEXT, failure_class VARCHAR,
    failure_tail TEXT, created_at DATETIME NOT NULL, updated_at DATETIME NOT NULL, axes VARCHAR DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_trials PRIMARY KEY (id),
    CONSTRAINT uq_trials_identity UNIQUE (sweep_id, rollouts_per_prompt, prompts_per_batch, recipe, learning_rate, seed, axes),
    CONSTRAINT fk_trials_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT fk_trials_candidate_id FOREIGN KEY(candidate_id) REFERENCES candidates (id) ON DELETE SET NULL,
    CONSTRAINT ck_trials_state CHECK (state IN ('planned', 'running', 'paused', 'finished', 'pruned', 'failed', 'lost'))
);
CREATE INDEX ix_trials_candidate_id ON trials (candidate_id);
CREATE TABLE cost_records (
    id INTEGER NOT NULL, at DATETIME NOT NULL, gpu VARCHAR NOT NULL, generator_gpus INTEGER NOT NULL,
    trainer_gpus INTEGER NOT NULL, colocated BOOLEAN NOT NULL, model VARCHAR NOT NULL, recipe VARCHAR NOT NULL,
    rollouts_per_prompt INTEGER NOT NULL, prompts_per_batch INTEGER NOT NULL, generated_rollouts INTEGER NOT NULL,
    trained_rollouts INTEGER NOT NULL, mean_prompt_tokens DOUBLE NOT NULL, mean_response_tokens DOUBLE NOT NULL,
    longest_response_tokens DOUBLE NOT NULL, seconds JSON NOT NULL, trial_id INTEGER, source TEXT, trainer VARCHAR,
    steps INTEGER, asynchronous BOOLEAN, updates_per_step INTEGER, engine_gpus INTEGER, response_assumed BOOLEAN,
    CONSTRAINT pk_cost_records PRIMARY KEY (id),
    CONSTRAINT fk_cost_records_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE SET NULL
);
CREATE INDEX ix_cost_records_gpu ON cost_records (gpu);
CREATE TABLE decisions (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, number INTEGER NOT NULL, at DATETIME NOT NULL,
    action VARCHAR NOT NULL, trial_id INTEGER, reason TEXT NOT NULL, seen JSON NOT NULL, alternatives JSON NOT NULL,
    CONSTRAINT pk_decisions PRIMARY KEY (id), CONSTRAINT uq_decisions_sweep_id_number UNIQUE (sweep_id, number),
    CONSTRAINT fk_decisions_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT fk_decisions_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE SET NULL
);
CREATE TABLE finals (
    id INTEGER NOT NULL, sweep_id INTEGER NOT NULL, of_sweep_id INTEGER NOT NULL, launched_at DATETIME NOT NULL,
    update_steps INTEGER NOT NULL, segment_steps INTEGER NOT NULL, gpu_hours_per_step DOUBLE NOT NULL,
    start_up_gpu_hours DOUBLE NOT NULL, from_trial_id INTEGER, from_step INTEGER NOT NULL,
    stop_when_won BOOLEAN NOT NULL, promised_score DOUBLE NOT NULL, promised_low DOUBLE NOT NULL,
    promised_high DOUBLE NOT NULL, promised_gpu_hours DOUBLE NOT NULL, promised_band JSON NOT NULL,
    CONSTRAINT pk_finals PRIMARY KEY (id), CONSTRAINT uq_finals_sweep_id UNIQUE (sweep_id),
    CONSTRAINT fk_finals_sweep_id FOREIGN KEY(sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT fk_finals_of_sweep_id FOREIGN KEY(of_sweep_id) REFERENCES sweeps (id) ON DELETE CASCADE,
    CONSTRAINT fk_finals_from_trial_id FOREIGN KEY(from_trial_id) REFERENCES trials (id) ON DELETE SET NULL
);
CREATE INDEX ix_finals_of_sweep_id ON finals (of_sweep_id);
CREATE TABLE fits (
    id INTEGER NOT NULL, trial_id INTEGER NOT NULL, made_at DATETIME NOT NULL, model VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL, upto_gpu_hours DOUBLE NOT NULL, target_gpu_hours DOUBLE NOT NULL,
    parameters JSON NOT NULL, predicted_mean DOUBLE NOT NULL, predicted_low DOUBLE NOT NULL,
    predicted_high DOUBLE NOT NULL, level DOUBLE NOT NULL, fit_milliseconds DOUBLE NOT NULL, probability_best DOUBLE,
    CONSTRAINT pk_fits PRIMARY KEY (id),
    CONSTRAINT fk_fits_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);
CREATE INDEX ix_fits_trial_id ON fits (trial_id);
CREATE TABLE rankings (
    recommendation_id INTEGER NOT NULL, rank INTEGER NOT NULL, rollouts_per_prompt INTEGER NOT NULL,
    prompts_per_batch INTEGER NOT NULL, update_steps INTEGER NOT NULL, learning_rate DOUBLE NOT NULL,
    recipe VARCHAR NOT NULL, expected_score DOUBLE, score_low DOUBLE, score_high DOUBLE, probability_best DOUBLE,
    gpu_hours_spent DOUBLE NOT NULL, gpu_hours_to_target DOUBLE NOT NULL, status VARCHAR NOT NULL,
    axes VARCHAR DEFAULT '{}' NOT NULL,
    CONSTRAINT pk_rankings PRIMARY KEY (recommendation_id, rank),
    CONSTRAINT fk_rankings_recommendation_id FOREIGN KEY(recommendation_id) REFERENCES recommendations (id) ON DELETE CASCADE
);
CREATE TABLE segments (
    id INTEGER NOT NULL, trial_id INTEGER NOT NULL, number INTEGER NOT NULL, attempt INTEGER NOT NULL,
    from_step INTEGER NOT NULL, to_step INTEGER NOT NULL, reserved_gpu_hours DOUBLE NOT NULL,
    charged_gpu_hours DOUBLE, worker VARCHAR, started_at DATETIME NOT NULL, ended_at DATETIME,
    outcome VARCHAR(16) NOT NULL, start_up_gpu_hours DOUBLE,
    CONSTRAINT pk_segments PRIMARY KEY (id),
    CONSTRAINT uq_segments_trial_id_number_attempt UNIQUE (trial_id, number, attempt),
    CONSTRAINT fk_segments_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE,
    CONSTRAINT ck_segments_outcome CHECK (outcome IN ('reserved', 'committed', 'failed', 'lost', 'released'))
);
CREATE TABLE transitions (
    id INTEGER NOT NULL, trial_id INTEGER NOT NULL, from_state VARCHAR(16), to_state VARCHAR(16) NOT NULL,
    at DATETIME NOT NULL, reason TEXT NOT NULL,
    CONSTRAINT pk_transitions PRIMARY KEY (id),
    CONSTRAINT fk_transitions_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE,
    CONSTRAINT ck_transitions_from_state CHECK (from_state IN ('planned', 'running', 'paused', 'finished', 'pruned', 'failed', 'lost')),
    CONSTRAINT ck_transitions_to_state CHECK (to_state IN ('planned', 'running', 'paused', 'finished', 'pruned', 'failed', 'lost'))
);
CREATE INDEX ix_transitions_trial_id ON transitions (trial_id);
CREATE TABLE forecasts (
    id INTEGER NOT NULL, final_id INTEGER NOT NULL, made_at DATETIME NOT NULL, step INTEGER NOT NULL,
    gpu_hours DOUBLE NOT NULL, score DOUBLE NOT NULL, end_score DOUBLE NOT NULL, end_low DOUBLE NOT NULL,
    end_high DOUBLE NOT NULL, probability_below DOUBLE NOT NULL, expected_gain DOUBLE, probability_more DOUBLE,
    CONSTRAINT pk_forecasts PRIMARY KEY (id),
    CONSTRAINT fk_forecasts_final_id FOREIGN KEY(final_id) REFERENCES finals (id) ON DELETE CASCADE
);
CREATE INDEX ix_forecasts_final_id ON forecasts (final_id);
CREATE TABLE points (
    trial_id INTEGER NOT NULL, optimizer_step INTEGER NOT NULL, attempt INTEGER NOT NULL, segment_id INTEGER,
    rollouts BIGINT NOT NULL, tokens BIGINT NOT NULL, seconds DOUBLE NOT NULL, gpu_hours DOUBLE NOT NULL,
    score DOUBLE, score_standard_error DOUBLE, metrics JSON, further_scores JSON, compared_gpu_hours DOUBLE,
    CONSTRAINT pk_points PRIMARY KEY (trial_id, optimizer_step, attempt),
    CONSTRAINT fk_points_trial_id FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE,
    CONSTRAINT fk_points_segment_id FOREIGN KEY(segment_id) REFERENCES segments (id) ON DELETE SET NULL
);
CREATE VIEW ranked_allocations AS
SELECT sweep, rank, rollouts_per_prompt, prompts_per_batch, update_steps, learning_rate, recipe,
    expected_score, score_low, score_high, probability_best, gpu_hours_spent, gpu_hours_to_target, status, plan, axes
FROM (
    SELECT plans.id AS plan_id, sweeps.id AS sweep_id, plans.name AS plan, sweeps.name AS sweep, rankings.rank,
        rankings.rollouts_per_prompt, rankings.prompts_per_batch, rankings.update_steps, rankings.learning_rate,
        rankings.recipe, rankings.expected_score, rankings.score_low, rankings.score_high, rankings.probability_best,
        rankings.gpu_hours_spent, rankings.gpu_hours_to_target, rankings.status, rankings.axes
    FROM sweeps
    JOIN plans ON plans.id = sweeps.plan_id
    JOIN rankings ON rankings.recommendation_id = (
        SELECT max(recommendations.id) FROM recommendations WHERE recommendations.sweep_id = sweeps.id
    )
    UNION ALL
    SELECT plans.id, sweeps.id, plans.name, sweeps.name, candidates.rank,
        candidates.rollouts_per_prompt, candidates.prompts_per_batch, candidates.update_steps, candidates.learning_rate,
        coalesce(candidates.recipe, plans.recipe), candidates.expected_score, candidates.score_low,
        candidates.score_high, NULL,
        coalesce(progress.gpu_hours_spent, 0.0), candidates.update_steps * candidates.gpu_hours_per_step,
        CASE progress.stage WHEN 1 THEN 'running' WHEN 2 THEN 'paused' WHEN 3 THEN 'finished' WHEN 4 THEN 'planned'
            WHEN 5 THEN 'failed' WHEN 6 THEN 'lost' WHEN 7 THEN 'pruned' ELSE 'proposed' END, candidates.axes
    FROM plans
    JOIN candidates ON candidates.plan_id = plans.id
    LEFT JOIN sweeps ON sweeps.plan_id = plans.id
        AND NOT EXISTS (SELECT 1 FROM finals WHERE finals.sweep_id = sweeps.id)
    LEFT JOIN (
        SELECT sweep_id, rollouts_per_prompt, prompts_per_batch, axes, sum(gpu_hours_spent) AS gpu_hours_spent,
            min(CASE state WHEN 'running' THEN 1 WHEN 'paused' THEN 2 WHEN 'finished' THEN 3 WHEN 'planned' THEN 4
                WHEN 'failed' THEN 5 WHEN 'lost' THEN 6 ELSE 7 END) AS stage
        FROM trials
        GROUP BY sweep_id, rollouts_per_prompt, prompts_per_batch, axes
    ) AS progress ON progress.sweep_id = sweeps.id
        AND progress.rollouts_per_prompt = candidates.rollouts_per_prompt
        AND progress.prompts_per_batch = candidates.prompts_per_batch
        AND progress.axes = candidates.axes
    WHERE NOT EXISTS (SELECT 1 FROM recommendations WHERE recommendations.sweep_id = sweeps.id)
) AS allocations
ORDER BY plan_id DESC, sweep_id DESC, rank;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO alembic_version VALUES ('0011');
INSERT INTO plans (name, created_at, budget_gpu_hours, pilot_gpu_hours, final_gpu_hours, recipe, difficulty, workload,
    hardware, config, assumptions, outlook, rlplan_version)
VALUES ('plan-1', '2026-03-01 12:00:00.000000', 10, 2, 8, 'grpo', 'hard', '{}', '{}', '{}', '[]', '[]', '0.0.9');
INSERT INTO candidates (plan_id, rank, rollouts_per_prompt, prompts_per_batch, update_steps, pilot_steps,
    gpu_hours_per_step, gpu_hours_per_step_low, gpu_hours_per_step_high, segment_steps, pilot_gpu_hours, learning_rate,
    epochs, signal_fraction, pilot_reason, notes)
VALUES (1, 1, 8, 64, 100, 20, 0.1, 0.08, 0.12, 5, 2, 1e-6, 1, 0.8, 'favourite', '[]');
INSERT INTO sweeps (plan_id, name, created_at, status, policy, seed, config, config_hash)
VALUES (1, 'sweep-1', '2026-03-01 12:00:00.000000', 'finished', 'rlplan', 1, '{}', 'c0ffee');
INSERT INTO trials (sweep_id, candidate_id, name, rollouts_per_prompt, prompts_per_batch, learning_rate, recipe, seed,
    config, state, attempt, gpu_hours_spent, created_at, updated_at)
VALUES (1, 1, 't', 8, 64, 1e-6, 'grpo', 1, '{}', 'finished', 1, 1.5, '2026-03-01 12:00:00', '2026-03-01 12:00:00');
INSERT INTO segments (trial_id, number, attempt, from_step, to_step, reserved_gpu_hours, charged_gpu_hours, started_at,
    outcome)
VALUES (1, 1, 1, 0, 5, 1, 0.9, '2026-03-01 12:00:00', 'committed');
INSERT INTO points (trial_id, optimizer_step, attempt, segment_id, rollouts, tokens, seconds, gpu_hours, score)
VALUES (1, 5, 1, 1, 2560, 25600, 60, 0.9, 0.5);
