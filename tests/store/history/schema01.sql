BEGIN TRANSACTION;
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
INSERT INTO "call" VALUES(1,1,0,0,'call_5f0d3d4683d0913f5357bccc_0','bash','{"command": "uv run scripts/fetch_context.py --attempt 465"}','{"command": "uv run scripts/fetch_context.py --attempt 465"}','',1,'','[]','','e2cff8a2ef1b','2','loop 3: Winter energy review
  Which three changes save most next winter without making the house less warm?
stage 93 (step 2), in_progress: The dearest month of the ventilation
  In which month of the heating season did the ventilation use most electricity, and why that one?
attempt 465 (number 2), alive
  earlier attempt 464: failure. Looked for a web search for most of its turns; there is none.
[decision] The review covers the heating season 2024-10 to 2025-03.
[data] Monthly totals stand in readings(device, month, kwh, hours). Device of this stage: ventilation.
[feedback] The evaluator of the last stage asked for one number and one source, not an essay.
',0,'loop 3: Winter energy review
  Which three changes save most next winter without making the house less warm?
stage 93 (step 2), in_progress: The dearest month of the ventilation
  In which month of the heating season did the ventilation use most electricity, and why that one?
attempt 465 (number 2), alive
  earlier attempt 464: failure. Looked for a web search for most of its turns; there is none.
[decision] The review covers the heating season 2024-10 to 2025-03.
[data] Monthly totals stand in readings(device, month, kwh, hours). Device of this stage: ventilation.
[feedback] The evaluator of the last stage asked for one number and one source, not an essay.
',3.42259984999600419541e-01,'',0);
INSERT INTO "call" VALUES(2,1,1,0,'call_cec03a113252591e9cc9ea89_0','bash','{"command": "uv run scripts/context_cache.py --command get --attempt 465 --key plan"}','{"command": "uv run scripts/context_cache.py --command get --attempt 465 --key plan"}','',1,'','[]','','e2cff8a2ef1b','2','Read the stored documents on the bypass and the frost heater of a ventilation unit, then take the month from the table readings (device ventilation). One month is the answer, as YYYY-MM.
',0,'Read the stored documents on the bypass and the frost heater of a ventilation unit, then take the month from the table readings (device ventilation). One month is the answer, as YYYY-MM.
',2.60748365999916131841e-01,'',0);
INSERT INTO "call" VALUES(3,1,2,0,'call_97ce446a4977a40c51ebd15f_0','bash','{"command": "uv run scripts/embedding_search.py --query \"the bypass and the frost heater of a ventilation unit\" --limit 3"}','{"command": "uv run scripts/embedding_search.py --query \"the bypass and the frost heater of a ventilation unit\" --limit 3"}','',1,'','[]','','e2cff8a2ef1b','2','0.552  document 6: Heat recovery and its bypass
0.210  document 7: Filters of a ventilation unit
0.086  document 1: How an air source heat pump defrosts
',0,'0.552  document 6: Heat recovery and its bypass
0.210  document 7: Filters of a ventilation unit
0.086  document 1: How an air source heat pump defrosts
',3.49101481000161584233e-01,'',0);
INSERT INTO "call" VALUES(4,1,3,0,'call_cb85bfdde9cb9f0a0c77a761_0','bash','{"command": "uv run scripts/fetch_context.py --document 6"}','{"command": "uv run scripts/fetch_context.py --document 6"}','',1,'','[]','','e2cff8a2ef1b','2','document 6: Heat recovery and its bypass
source: ventilation manual, page 31

The bypass leads the outside air past the heat exchanger. When it stays open in the heating season the unit saves no heat, and a frost heater may come on in front of it. February with clear nights is when the frost heater of a ventilation unit runs longest.
',0,'document 6: Heat recovery and its bypass
source: ventilation manual, page 31

The bypass leads the outside air past the heat exchanger. When it stays open in the heating season the unit saves no heat, and a frost heater may come on in front of it. February with clear nights is when the frost heater of a ventilation unit runs longest.
',2.80609518999881402123e-01,'',0);
INSERT INTO "call" VALUES(5,1,3,1,'call_cb85bfdde9cb9f0a0c77a761_1','bash','{"command": "uv run scripts/db_query.py --tables"}','{"command": "uv run scripts/db_query.py --tables"}','',1,'','[]','','e2cff8a2ef1b','2','CREATE TABLE clock (tick INTEGER NOT NULL)
CREATE TABLE loops (id INTEGER PRIMARY KEY, title TEXT NOT NULL, question TEXT NOT NULL)
CREATE TABLE stages ( id INTEGER PRIMARY KEY, loop_id INTEGER NOT NULL REFERENCES loops (id), ordinal INTEGER NOT NULL, title TEXT NOT NULL, brief TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN (''open'', ''in_progress'', ''awaiting_eval'', ''passed'', ''failed'')), changed INTEGER NOT NULL )
CREATE TABLE attempts ( id INTEGER PRIMARY KEY, stage_id INTEGER NOT NULL REFERENCES stages (id), number INTEGER NOT NULL, agent TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN (''alive'', ''closed'')), outcome TEXT CHECK (outcome IN (''success'', ''partial'', ''failure'')), answer TEXT, summary TEXT, changed INTEGER NOT NULL )
CREATE TABLE closing_calls ( id INTEGER PRIMARY KEY, attempt_id INTEGER NOT NULL REFERENCES attempts (id), name TEXT NOT NULL, in_order INTEGER NOT NULL, tick INTEGER NOT NULL )
CREATE TABLE spawns ( id INTEGER PRIMARY KEY, attempt_id INTEGER NOT NULL REFERENCES attempts (id), kind TEXT NOT NULL, agent TEXT NOT NULL, attached INTEGER NOT NULL, tick INTEGER NOT NULL )
CREATE TABLE cache ( attempt_id INTEGER NOT NULL REFERENCES attempts (id), key TEXT NOT NULL, value TEXT NOT NULL, tick INTEGER NOT NULL, PRIMARY KEY (attempt_id, key) )
CREATE TABLE context_blocks ( id INTEGER PRIMARY KEY, stage_id INTEGER NOT NULL REFERENCES stages (id), kind TEXT NOT NULL, body TEXT NOT NULL )
CREATE TABLE readings ( device TEXT NOT NULL, month TEXT NOT NULL, kwh REAL NOT NULL, hours INTEGER NOT NULL, PRIMARY KEY (device, month) )
CREATE TABLE documents (id INTEGER PRIMARY KEY, title TEXT NOT NULL, source TEXT NOT NULL, body TEXT NOT NULL)
',0,'CREATE TABLE clock (tick INTEGER NOT NULL)
CREATE TABLE loops (id INTEGER PRIMARY KEY, title TEXT NOT NULL, question TEXT NOT NULL)
CREATE TABLE stages ( id INTEGER PRIMARY KEY, loop_id INTEGER NOT NULL REFERENCES loops (id), ordinal INTEGER NOT NULL, title TEXT NOT NULL, brief TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN (''open'', ''in_progress'', ''awaiting_eval'', ''passed'', ''failed'')), changed INTEGER NOT NULL )
CREATE TABLE attempts ( id INTEGER PRIMARY KEY, stage_id INTEGER NOT NULL REFERENCES stages (id), number INTEGER NOT NULL, agent TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN (''alive'', ''closed'')), outcome TEXT CHECK (outcome IN (''success'', ''partial'', ''failure'')), answer TEXT, summary TEXT, changed INTEGER NOT NULL )
CREATE TABLE closing_calls ( id INTEGER PRIMARY KEY, attempt_id INTEGER NOT NULL REFERENCES attempts (id), name TEXT NOT NULL, in_order INTEGER NOT NULL, tick INTEGER NOT NULL )
CREATE TABLE spawns ( id INTEGER PRIMARY KEY, attempt_id INTEGER NOT NULL REFERENCES attempts (id), kind TEXT NOT NULL, agent TEXT NOT NULL, attached INTEGER NOT NULL, tick INTEGER NOT NULL )
CREATE TABLE cache ( attempt_id INTEGER NOT NULL REFERENCES attempts (id), key TEXT NOT NULL, value TEXT NOT NULL, tick INTEGER NOT NULL, PRIMARY KEY (attempt_id, key) )
CREATE TABLE context_blocks ( id INTEGER PRIMARY KEY, stage_id INTEGER NOT NULL REFERENCES stages (id), kind TEXT NOT NULL, body TEXT NOT NULL )
CREATE TABLE readings ( device TEXT NOT NULL, month TEXT NOT NULL, kwh REAL NOT NULL, hours INTEGER NOT NULL, PRIMARY KEY (device, month) )
CREATE TABLE documents (id INTEGER PRIMARY KEY, title TEXT NOT NULL, source TEXT NOT NULL, body TEXT NOT NULL)
',2.37844134999704692745e-01,'',0);
INSERT INTO "call" VALUES(6,1,4,0,'call_4ed34840eaab0542085a4a2f_0','bash','{"command": "uv run scripts/db_query.py --sql \"SELECT month, kwh, hours FROM readings WHERE device = ''ventilation'' ORDER BY kwh\" --format json"}','{"command": "uv run scripts/db_query.py --sql \"SELECT month, kwh, hours FROM readings WHERE device = ''ventilation'' ORDER BY kwh\" --format json"}','',1,'','[]','','e2cff8a2ef1b','2','[
  {
    "month": "2024-10",
    "kwh": 31.2,
    "hours": 744
  },
  {
    "month": "2024-11",
    "kwh": 34.8,
    "hours": 720
  },
  {
    "month": "2025-03",
    "kwh": 35.0,
    "hours": 744
  },
  {
    "month": "2024-12",
    "kwh": 36.1,
    "hours": 744
  },
  {
    "month": "2025-01",
    "kwh": 37.7,
    "hours": 744
  },
  {
    "month": "2025-02",
    "kwh": 41.9,
    "hours": 672
  }
]
',0,'[
  {
    "month": "2024-10",
    "kwh": 31.2,
    "hours": 744
  },
  {
    "month": "2024-11",
    "kwh": 34.8,
    "hours": 720
  },
  {
    "month": "2025-03",
    "kwh": 35.0,
    "hours": 744
  },
  {
    "month": "2024-12",
    "kwh": 36.1,
    "hours": 744
  },
  {
    "month": "2025-01",
    "kwh": 37.7,
    "hours": 744
  },
  {
    "month": "2025-02",
    "kwh": 41.9,
    "hours": 672
  }
]
',2.45466887000020506093e-01,'',0);
INSERT INTO "call" VALUES(7,1,5,0,'call_71862873efa72b2862b80e19_0','bash','{"command": "uv run scripts/context_cache.py --command set --attempt 465 --key findings --value \"2025-02: Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\""}','{"command": "uv run scripts/context_cache.py --command set --attempt 465 --key findings --value \"2025-02: Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\""}','',1,'','[]','','e2cff8a2ef1b','2','kept findings (114 characters)
',0,'kept findings (114 characters)
',1.96111107999968226067e-01,'',0);
INSERT INTO "call" VALUES(8,1,6,0,'call_5d50821f355c8c85a3754905_0','bash','{"command": "uv run scripts/ralf.py update-attempt-outcome --attempt 465 --outcome success --answer 2025-02 --summary \"Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\""}','{"command": "uv run scripts/ralf.py update-attempt-outcome --attempt 465 --outcome success --answer 2025-02 --summary \"Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\""}','',1,'','[]','','e2cff8a2ef1b','2','attempt 465: outcome success
',0,'attempt 465: outcome success
',1.52385017000142397591e-01,'',0);
INSERT INTO "call" VALUES(9,1,7,0,'call_1eaaf8bce5dbe72f46e6fdb6_0','bash','{"command": "uv run scripts/ralf.py update-stage-status 93 awaiting_eval \""}','{"command": "uv run scripts/ralf.py update-stage-status 93 awaiting_eval \""}','',0,'shell-syntax-error','[{"failure_class": "shell-syntax-error", "evidence": {"text": "\"", "start": 60, "end": 61}, "hint": "Close every quote and bracket, and send one whole command.", "facets": ["script-listed"]}]','','e2cff8a2ef1b','2','Permission denied: the rules do not allow `"` here. Nothing was run.',NULL,NULL,NULL,'',0);
INSERT INTO "call" VALUES(10,1,8,0,'call_559f0e859b95c178fe704acd_0','bash','{"command": "uv run scripts/ralf.py update-stage-status 93 awaiting_eval"}','{"command": "uv run scripts/ralf.py update-stage-status 93 awaiting_eval"}','',1,'','[]','','e2cff8a2ef1b','2','stage 93: in_progress -> awaiting_eval
',0,'stage 93: in_progress -> awaiting_eval
',1.79356500000267260475e-01,'',0);
INSERT INTO "call" VALUES(11,1,9,0,'call_a51a5f215016de5c160a5304_0','bash','{"command": "uv run scripts/ralf.py ralf_spawn step_evaluator --attempt 465 --no-attach --agent evaluator-small"}','{"command": "uv run scripts/ralf.py ralf_spawn step_evaluator --attempt 465 --no-attach --agent evaluator-small"}','',1,'','[]','','e2cff8a2ef1b','2','started step_evaluator with agent evaluator-small for attempt 465
',0,'started step_evaluator with agent evaluator-small for attempt 465
',1.4791309299971544533e-01,'',0);
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
	protocol VARCHAR NOT NULL, 
	taxonomy VARCHAR NOT NULL, 
	complete BOOLEAN NOT NULL, 
	second_reader JSON NOT NULL, 
	card JSON NOT NULL, 
	policies JSON NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "run" VALUES('20261127-135351-sim-qwen3.5-27b','sim/qwen3.5-27b',1,'2026-11-27T13:53:51.413+00:00',3,1,NULL,4,'bubblewrap','strict/1','2',1,'{"agreed": 10, "objected": 0, "failed": 0, "timed out": 0}','{"name": "sim/qwen3.5-27b", "served_id": "sim/qwen3.5-27b", "base_url": "http://127.0.0.1:34445/v1", "architecture": "dense", "total_parameters": 27.0, "active_parameters": 27.0, "quantization": "", "kv_cache": "", "server": "agenteval-simulated", "server_version": "", "tool_parser": "", "sampling": {"temperature": 1.0, "top_p": 0.95, "top_k": 20, "presence_penalty": 1.5}, "simulated": true}','{"ralf": "e2cff8a2ef1b"}');
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
INSERT INTO "trial" VALUES(1,'20261127-135351-sim-qwen3.5-27b','ralf-handshake',1,745818347,'goal','completed','',3.14270895001300232252e-01,'[{"name": "update-attempt-outcome", "reached": true}, {"name": "update-stage-status awaiting_eval", "reached": true}, {"name": "ralf_spawn step_evaluator", "reached": true}]');
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
INSERT INTO "turn" VALUES(1,1,0,'','tool_calls',943,23,1.2090782900031626923e-01,'data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}

data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [{"index": 0, "delta": {"reasoning_content": "This script has what I need."}, "finish_reason": null}]}

data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_5f0d3d4683d0913f5357bccc_0", "type": "function", "function": {"name": "bash", "arguments": ""}}]}, "finish_reason": null}]}

data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{\"command\": \"uv run scripts/fe"}}]}, "finish_reason": null}]}

data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "tch_context.py --attempt 465\"}"}}]}, "finish_reason": null}]}

data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}

data: {"id": "chatcmpl-5f0d3d4683d0913f5357bccc", "object": "chat.completion.chunk", "created": 0, "model": "sim/qwen3.5-27b", "choices": [], "usage": {"prompt_tokens": 943, "completion_tokens": 23, "total_tokens": 966}}

data: [DONE]

','[{"id": "call_5f0d3d4683d0913f5357bccc_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/fetch_context.py --attempt 465\"}", "arguments": {"command": "uv run scripts/fetch_context.py --attempt 465"}, "garbled": ""}]');
INSERT INTO "turn" VALUES(2,1,1,'','tool_calls',1110,31,2.2303568000097584445e-02,'','[{"id": "call_cec03a113252591e9cc9ea89_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/context_cache.py --command get --attempt 465 --key plan\"}", "arguments": {"command": "uv run scripts/context_cache.py --command get --attempt 465 --key plan"}, "garbled": ""}]');
INSERT INTO "turn" VALUES(3,1,2,'','tool_calls',1157,41,2.85419480001110059674e-02,'','[{"id": "call_97ce446a4977a40c51ebd15f_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/embedding_search.py --query \\\"the bypass and the frost heater of a ventilation unit\\\" --limit 3\"}", "arguments": {"command": "uv run scripts/embedding_search.py --query \"the bypass and the frost heater of a ventilation unit\" --limit 3"}, "garbled": ""}]');
INSERT INTO "turn" VALUES(4,1,3,'','tool_calls',1195,35,1.99473360003139532636e-02,'','[{"id": "call_cb85bfdde9cb9f0a0c77a761_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/fetch_context.py --document 6\"}", "arguments": {"command": "uv run scripts/fetch_context.py --document 6"}, "garbled": ""}, {"id": "call_cb85bfdde9cb9f0a0c77a761_1", "name": "bash", "raw": "{\"command\": \"uv run scripts/db_query.py --tables\"}", "arguments": {"command": "uv run scripts/db_query.py --tables"}, "garbled": ""}]');
INSERT INTO "turn" VALUES(5,1,4,'','tool_calls',1700,44,4.19368520001626166049e-02,'','[{"id": "call_4ed34840eaab0542085a4a2f_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/db_query.py --sql \\\"SELECT month, kwh, hours FROM readings WHERE device = ''ventilation'' ORDER BY kwh\\\" --format json\"}", "arguments": {"command": "uv run scripts/db_query.py --sql \"SELECT month, kwh, hours FROM readings WHERE device = ''ventilation'' ORDER BY kwh\" --format json"}, "garbled": ""}]');
INSERT INTO "turn" VALUES(6,1,5,'','tool_calls',1801,64,1.50328680001621250994e-02,'','[{"id": "call_71862873efa72b2862b80e19_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/context_cache.py --command set --attempt 465 --key findings --value \\\"2025-02: Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\\\"\"}", "arguments": {"command": "uv run scripts/context_cache.py --command set --attempt 465 --key findings --value \"2025-02: Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\""}, "garbled": ""}]');
INSERT INTO "turn" VALUES(7,1,6,'','tool_calls',1809,67,9.22850400002062087878e-03,'','[{"id": "call_5d50821f355c8c85a3754905_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/ralf.py update-attempt-outcome --attempt 465 --outcome success --answer 2025-02 --summary \\\"Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\\\"\"}", "arguments": {"command": "uv run scripts/ralf.py update-attempt-outcome --attempt 465 --outcome success --answer 2025-02 --summary \"Clear February nights bring the frost heater on longest (document 6), although the month is the shortest.\""}, "garbled": ""}]');
INSERT INTO "turn" VALUES(8,1,7,'','tool_calls',1816,29,2.0426236000275821425e-02,'','[{"id": "call_1eaaf8bce5dbe72f46e6fdb6_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/ralf.py update-stage-status 93 awaiting_eval \\\"\"}", "arguments": {"command": "uv run scripts/ralf.py update-stage-status 93 awaiting_eval \""}, "garbled": ""}]');
INSERT INTO "turn" VALUES(9,1,8,'','tool_calls',1833,34,1.67668359999879612587e-02,'','[{"id": "call_559f0e859b95c178fe704acd_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/ralf.py update-stage-status 93 awaiting_eval\"}", "arguments": {"command": "uv run scripts/ralf.py update-stage-status 93 awaiting_eval"}, "garbled": ""}]');
INSERT INTO "turn" VALUES(10,1,9,'','tool_calls',1843,38,1.91789179998522740788e-02,'','[{"id": "call_a51a5f215016de5c160a5304_0", "name": "bash", "raw": "{\"command\": \"uv run scripts/ralf.py ralf_spawn step_evaluator --attempt 465 --no-attach --agent evaluator-small\"}", "arguments": {"command": "uv run scripts/ralf.py ralf_spawn step_evaluator --attempt 465 --no-attach --agent evaluator-small"}, "garbled": ""}]');
CREATE INDEX ix_run_model ON run (model);
CREATE INDEX ix_trial_run_id ON trial (run_id);
CREATE INDEX ix_turn_trial_id ON turn (trial_id);
CREATE INDEX ix_call_trial_id ON call (trial_id);
CREATE INDEX ix_call_failure_class ON call (failure_class);
COMMIT;
PRAGMA user_version = 1;
