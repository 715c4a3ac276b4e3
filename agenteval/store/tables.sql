CREATE TABLE imported (
  id VARCHAR NOT NULL,
  imported VARCHAR NOT NULL,
  source VARCHAR NOT NULL,
  card JSON NOT NULL,
  trials JSON NOT NULL,
  by_trial BOOLEAN NOT NULL,
  calls JSON NOT NULL,
  by_class JSON NOT NULL,
  PRIMARY KEY (id)
);
CREATE TABLE log_file (
  id VARCHAR NOT NULL,
  state VARCHAR NOT NULL,
  PRIMARY KEY (id)
);
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
  prefork BOOLEAN DEFAULT 0 NOT NULL,
  protocol VARCHAR NOT NULL,
  taxonomy VARCHAR NOT NULL,
  complete BOOLEAN NOT NULL,
  seconds FLOAT,
  joules FLOAT,
  second_reader JSON NOT NULL,
  card JSON NOT NULL,
  policies JSON NOT NULL,
  judged JSON DEFAULT '{}' NOT NULL,
  options JSON DEFAULT '{}' NOT NULL,
  scenarios JSON DEFAULT '{}' NOT NULL,
  arm JSON DEFAULT '{}' NOT NULL,
  source JSON DEFAULT '{}' NOT NULL,
  per_token FLOAT DEFAULT '4' NOT NULL,
  PRIMARY KEY (id)
);
CREATE INDEX ix_run_model ON run (model);
CREATE TABLE crash (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  at FLOAT NOT NULL,
  said VARCHAR NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_crash_run_id ON crash (run_id);
CREATE TABLE look (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  planned INTEGER NOT NULL,
  trials INTEGER NOT NULL,
  level FLOAT NOT NULL,
  verdict VARCHAR NOT NULL,
  baseline VARCHAR NOT NULL,
  rules VARCHAR NOT NULL,
  at VARCHAR DEFAULT '' NOT NULL,
  data VARCHAR DEFAULT '' NOT NULL,
  judged VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (run_id, number),
  FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_look_run_id ON look (run_id);
CREATE TABLE message (
  run_id VARCHAR NOT NULL,
  digest VARCHAR NOT NULL,
  data VARCHAR NOT NULL,
  PRIMARY KEY (run_id, digest),
  FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE TABLE rescore (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  at VARCHAR NOT NULL,
  taxonomy_before VARCHAR NOT NULL,
  taxonomy VARCHAR NOT NULL,
  policies_before JSON NOT NULL,
  policies JSON NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_rescore_run_id ON rescore (run_id);
CREATE TABLE shard (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  shards INTEGER NOT NULL,
  job VARCHAR NOT NULL,
  host VARCHAR NOT NULL,
  version VARCHAR NOT NULL,
  lease FLOAT NOT NULL,
  seen FLOAT NOT NULL,
  came FLOAT DEFAULT '0' NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE INDEX ix_shard_run_id ON shard (run_id);
CREATE TABLE tags (
  run_id VARCHAR NOT NULL,
  labels JSON NOT NULL,
  note VARCHAR NOT NULL,
  PRIMARY KEY (run_id),
  FOREIGN KEY(run_id) REFERENCES run (id)
);
CREATE TABLE trial (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  scenario VARCHAR NOT NULL,
  number INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  shard INTEGER,
  ending VARCHAR NOT NULL,
  outcome VARCHAR NOT NULL,
  reason TEXT NOT NULL,
  cause VARCHAR DEFAULT '' NOT NULL,
  retries INTEGER DEFAULT '0' NOT NULL,
  stretched FLOAT DEFAULT '1' NOT NULL,
  seconds FLOAT NOT NULL,
  handshake JSON NOT NULL,
  goal JSON DEFAULT '[]' NOT NULL,
  goal_turn INTEGER,
  prompts JSON DEFAULT '{}' NOT NULL,
  replaced BOOLEAN DEFAULT 0 NOT NULL,
  agents JSON DEFAULT '[]' NOT NULL,
  calls INTEGER DEFAULT '0' NOT NULL,
  errors JSON DEFAULT '{}' NOT NULL,
  executed INTEGER DEFAULT '0' NOT NULL,
  crashed INTEGER DEFAULT '0' NOT NULL,
  prompt_tokens INTEGER DEFAULT '0' NOT NULL,
  agent_calls JSON DEFAULT '{}' NOT NULL,
  agent_errors JSON DEFAULT '{}' NOT NULL,
  counting INTEGER DEFAULT '0' NOT NULL,
  recovery JSON,
  PRIMARY KEY (id),
  FOREIGN KEY(run_id) REFERENCES run (id),
  FOREIGN KEY(shard) REFERENCES shard (id)
);
CREATE INDEX ix_trial_run_id ON trial (run_id);
CREATE INDEX trial_counting ON trial (counting) WHERE outcome <> '' AND NOT replaced;
CREATE UNIQUE INDEX trial_in_force ON trial (run_id, scenario, number) WHERE NOT replaced;
CREATE INDEX trial_replaced ON trial (id) WHERE replaced;
CREATE TABLE call (
  id INTEGER NOT NULL,
  trial_id INTEGER NOT NULL,
  agent VARCHAR DEFAULT '' NOT NULL,
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
  output_is_reply BOOLEAN DEFAULT 0 NOT NULL,
  seconds FLOAT,
  "limit" VARCHAR NOT NULL,
  cut BOOLEAN NOT NULL,
  harness VARCHAR DEFAULT '' NOT NULL,
  derived VARCHAR DEFAULT '' NOT NULL,
  offending TEXT DEFAULT '' NOT NULL,
  shape VARCHAR DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(trial_id) REFERENCES trial (id)
);
CREATE INDEX call_by_class ON call (trial_id, failure_class, agent);
CREATE INDEX ix_call_failure_class ON call (failure_class);
CREATE TABLE session (
  id INTEGER NOT NULL,
  run_id VARCHAR NOT NULL,
  trial_id INTEGER NOT NULL,
  session TEXT NOT NULL,
  part INTEGER NOT NULL,
  agent TEXT NOT NULL,
  version TEXT NOT NULL,
  project TEXT NOT NULL,
  parent TEXT NOT NULL,
  path TEXT NOT NULL,
  began FLOAT,
  ended FLOAT,
  size JSON NOT NULL,
  outcomes JSON NOT NULL,
  policy TEXT NOT NULL,
  differ INTEGER NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(run_id) REFERENCES run (id),
  FOREIGN KEY(trial_id) REFERENCES trial (id)
);
CREATE INDEX ix_session_began ON session (began);
CREATE INDEX ix_session_run_id ON session (run_id);
CREATE INDEX ix_session_trial_id ON session (trial_id);
CREATE TABLE turn (
  id INTEGER NOT NULL,
  trial_id INTEGER NOT NULL,
  agent VARCHAR DEFAULT '' NOT NULL,
  number INTEGER NOT NULL,
  text TEXT NOT NULL,
  finish_reason TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER DEFAULT '0' NOT NULL,
  cached_tokens INTEGER DEFAULT '0' NOT NULL,
  seconds FLOAT NOT NULL,
  first_piece FLOAT,
  pieces INTEGER DEFAULT '0' NOT NULL,
  gap_mean FLOAT DEFAULT '0' NOT NULL,
  gap_median FLOAT DEFAULT '0' NOT NULL,
  gap_p95 FLOAT DEFAULT '0' NOT NULL,
  gap_longest FLOAT DEFAULT '0' NOT NULL,
  garbles JSON DEFAULT '[]' NOT NULL,
  repairs JSON DEFAULT '[]' NOT NULL,
  repeats TEXT DEFAULT '' NOT NULL,
  model TEXT DEFAULT '' NOT NULL,
  reasoning TEXT DEFAULT '' NOT NULL,
  raw TEXT NOT NULL,
  ended FLOAT,
  calls JSON NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(trial_id) REFERENCES trial (id)
);
CREATE INDEX ix_turn_trial_id ON turn (trial_id);
CREATE INDEX turn_garbled ON turn (trial_id) WHERE CAST(garbles AS TEXT) <> '[]';
CREATE TABLE judgement (
  id INTEGER NOT NULL,
  rescore_id INTEGER,
  call_id INTEGER,
  allowed BOOLEAN NOT NULL,
  failure_class VARCHAR NOT NULL,
  findings JSON NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(rescore_id) REFERENCES rescore (id),
  FOREIGN KEY(call_id) REFERENCES call (id)
);
CREATE INDEX ix_judgement_call_id ON judgement (call_id);
CREATE INDEX ix_judgement_rescore_id ON judgement (rescore_id);
CREATE TABLE review (
  id INTEGER NOT NULL,
  trial_id INTEGER NOT NULL,
  call_id INTEGER NOT NULL,
  label VARCHAR NOT NULL,
  note TEXT NOT NULL,
  at VARCHAR NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(trial_id) REFERENCES trial (id),
  UNIQUE (call_id),
  FOREIGN KEY(call_id) REFERENCES call (id)
);
CREATE INDEX ix_review_trial_id ON review (trial_id);
