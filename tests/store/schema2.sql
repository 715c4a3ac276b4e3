-- A database as schema 2 had it, with one run in it.
CREATE TABLE run (
    id VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    simulated BOOLEAN NOT NULL,
    started VARCHAR NOT NULL,
    seed INTEGER NOT NULL,
    trials_planned INTEGER NOT NULL,
    max_turns INTEGER,
    concurrency INTEGER NOT NULL,
    sandbox VARCHAR NOT NULL,
    prefork BOOLEAN NOT NULL,
    protocol VARCHAR NOT NULL,
    taxonomy VARCHAR NOT NULL,
    complete BOOLEAN NOT NULL,
    second_reader JSON NOT NULL,
    card JSON NOT NULL,
    policies JSON NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX ix_run_model ON run (model);
CREATE TABLE trial (
    id INTEGER NOT NULL,
    run_id VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    number INTEGER NOT NULL,
    seed INTEGER NOT NULL,
    ending VARCHAR NOT NULL,
    outcome VARCHAR NOT NULL,
    reason TEXT NOT NULL,
    seconds FLOAT NOT NULL,
    handshake JSON NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (run_id, scenario, number),
    FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_trial_run_id ON trial (run_id);
CREATE TABLE turn (
    id INTEGER NOT NULL,
    trial_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    seconds FLOAT NOT NULL,
    raw TEXT NOT NULL,
    calls JSON NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(trial_id) REFERENCES trial (id)
);
CREATE INDEX ix_turn_trial_id ON turn (trial_id);
CREATE TABLE call (
    id INTEGER NOT NULL,
    trial_id INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    position INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    name TEXT NOT NULL,
    raw TEXT NOT NULL,
    arguments JSON,
    garbled TEXT NOT NULL,
    allowed BOOLEAN NOT NULL,
    failure_class VARCHAR NOT NULL,
    findings JSON NOT NULL,
    objection TEXT NOT NULL,
    policy VARCHAR NOT NULL,
    taxonomy VARCHAR NOT NULL,
    reply TEXT NOT NULL,
    exit_code INTEGER,
    output TEXT,
    seconds FLOAT,
    "limit" VARCHAR NOT NULL,
    cut BOOLEAN NOT NULL,
    PRIMARY KEY (id),
    FOREIGN KEY(trial_id) REFERENCES trial (id)
);
CREATE INDEX ix_call_trial_id ON call (trial_id);
CREATE INDEX ix_call_failure_class ON call (failure_class);
INSERT INTO run VALUES ('r1', 'm', FALSE, 't', 7, 1, NULL, 4, 'none', TRUE, 'strict/1', '2', TRUE, '{}',
    '{"name": "m", "served_id": "m", "tool_parser": "hermes"}', '{"demo": "abc"}');
INSERT INTO trial VALUES (1, 'r1', 's', 1, 99, 'goal', 'completed', '', 0.5, '[]');
INSERT INTO turn VALUES (1, 1, 0, 'text', 'stop', 10, 5, 0.5, '{}', '[]');
INSERT INTO call VALUES (1, 1, 0, 0, 'c', 'bash', '{"command": "ls"}', '{"command": "ls"}', '', TRUE, '',
    '[]', '', 'abc', '2', 'a', 0, 'a', 0.01, '', FALSE);
PRAGMA user_version = 2;
