CREATE TABLE approvals (
    n bigint NOT NULL,
    id text NOT NULL,
    call_id text NOT NULL,
    tool text NOT NULL,
    input text NOT NULL,
    reason text NOT NULL,
    asked_by text NOT NULL,
    thread_id text NOT NULL,
    run_id text,
    task_id text,
    owner text NOT NULL,
    requested_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    decision text,
    decided_input text,
    decision_reason text NOT NULL,
    decided_at double precision
);

CREATE TABLE events (
    n bigint NOT NULL,
    type text NOT NULL,
    "time" double precision NOT NULL,
    thread_id text,
    run_id text,
    task_id text,
    data text NOT NULL
);

CREATE TABLE idempotency_keys (
    thread_id text NOT NULL,
    key text NOT NULL,
    message_id text NOT NULL,
    run_id text NOT NULL,
    created_at double precision NOT NULL
);

CREATE TABLE messages (
    n bigint NOT NULL,
    id text NOT NULL,
    thread_id text NOT NULL,
    role text NOT NULL,
    kind text NOT NULL,
    content text NOT NULL,
    created_at double precision NOT NULL,
    run_id text
);

CREATE TABLE plugin_values (
    space text NOT NULL,
    key text NOT NULL,
    value bytea NOT NULL
);

CREATE TABLE plugins (
    name text NOT NULL,
    enabled boolean,
    settings text
);

CREATE TABLE results (
    handle text NOT NULL,
    content bytea NOT NULL,
    created_at double precision NOT NULL
);

CREATE TABLE runs (
    n bigint NOT NULL,
    id text NOT NULL,
    thread_id text NOT NULL,
    parent_run_id text,
    owner text NOT NULL,
    status text NOT NULL,
    prompt text NOT NULL,
    agent text NOT NULL,
    runtime text NOT NULL,
    model text NOT NULL,
    result text,
    error_code text,
    error_message text,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cost double precision NOT NULL,
    created_at double precision NOT NULL,
    started_at double precision,
    ended_at double precision
);

CREATE TABLE sequence (
    name text NOT NULL,
    value bigint NOT NULL
);

CREATE TABLE threads (
    n bigint NOT NULL,
    id text NOT NULL,
    created_at double precision NOT NULL,
    title text NOT NULL,
    agent text NOT NULL,
    runtime text NOT NULL,
    model text NOT NULL,
    parent_thread_id text,
    session_id text
);

CREATE TABLE toolyard_version (
    version integer NOT NULL
);

INSERT INTO approvals VALUES (39, 'approval_open', 'call', 'mail__send', '{"to":["é"]}', 'many', 'careful', 'thread_full', 'run_completed', 'task_1', 'old-process', 1000, 1300, NULL, NULL, '', NULL);
INSERT INTO approvals VALUES (40, 'approval_allowed', 'call', 'mail__send', '{"to":["é"]}', 'many', 'careful', 'thread_full', 'run_completed', 'task_1', 'old-process', 1000, 1300, 'allow', '{"to":[]}', 'ok', 1100.5);
INSERT INTO approvals VALUES (41, 'approval_denied', 'call', 'mail__send', '{"to":["é"]}', 'many', 'careful', 'thread_full', 'run_completed', 'task_1', 'old-process', 1000, 1300, 'deny', NULL, '', 1101.5);

INSERT INTO events VALUES (5, 'message', 1001.25, 'thread_full', 'run_completed', NULL, '{"n":1}');
INSERT INTO events VALUES (6, 'run.started', 1001.25, 'thread_full', 'run_completed', NULL, '{}');
INSERT INTO events VALUES (8, 'completed', 1001.25, 'thread_full', 'run_completed', NULL, '{"why":"x"}');
INSERT INTO events VALUES (11, 'message', 1001.25, 'thread_full', 'run_failed', NULL, '{"n":1}');
INSERT INTO events VALUES (12, 'run.started', 1001.25, 'thread_full', 'run_failed', NULL, '{}');
INSERT INTO events VALUES (13, 'failed', 1001.25, 'thread_full', 'run_failed', NULL, '{"why":"x"}');
INSERT INTO events VALUES (16, 'message', 1001.25, 'thread_full', 'run_timeout', NULL, '{"n":1}');
INSERT INTO events VALUES (17, 'run.started', 1001.25, 'thread_full', 'run_timeout', NULL, '{}');
INSERT INTO events VALUES (18, 'timeout', 1001.25, 'thread_full', 'run_timeout', NULL, '{"why":"x"}');
INSERT INTO events VALUES (21, 'message', 1001.25, 'thread_full', 'run_cancelled', NULL, '{"n":1}');
INSERT INTO events VALUES (22, 'run.started', 1001.25, 'thread_full', 'run_cancelled', NULL, '{}');
INSERT INTO events VALUES (23, 'cancelled', 1001.25, 'thread_full', 'run_cancelled', NULL, '{"why":"x"}');
INSERT INTO events VALUES (26, 'message', 1001.25, 'thread_full', 'run_lost', NULL, '{"n":1}');
INSERT INTO events VALUES (27, 'run.started', 1001.25, 'thread_full', 'run_lost', NULL, '{}');
INSERT INTO events VALUES (28, 'lost', 1001.25, 'thread_full', 'run_lost', NULL, '{"why":"x"}');
INSERT INTO events VALUES (32, 'message', 1001.25, 'thread_made', 'run_running', NULL, '{}');
INSERT INTO events VALUES (33, 'run.started', 1001.25, 'thread_made', 'run_running', NULL, '{}');
INSERT INTO events VALUES (37, 'tools.changed', 1001.25, NULL, NULL, NULL, '{"added":["a"],"nested":{"list":[1,2.5,null,true,"é\u0000"]}}');
INSERT INTO events VALUES (38, 'task.created', 1004, NULL, NULL, 'task_1', '{}');
INSERT INTO events VALUES (39, 'approval.requested', 1001.25, NULL, NULL, NULL, '{"approvalId":"approval_open"}');
INSERT INTO events VALUES (40, 'approval.requested', 1001.25, NULL, NULL, NULL, '{"approvalId":"approval_allowed"}');
INSERT INTO events VALUES (41, 'approval.requested', 1001.25, NULL, NULL, NULL, '{"approvalId":"approval_denied"}');

INSERT INTO idempotency_keys VALUES ('thread_full', 'key-completed', 'msg_run_completed', 'run_completed', 1000.5);
INSERT INTO idempotency_keys VALUES ('thread_full', 'key-failed', 'msg_run_failed', 'run_failed', 1000.5);
INSERT INTO idempotency_keys VALUES ('thread_full', 'key-timeout', 'msg_run_timeout', 'run_timeout', 1000.5);
INSERT INTO idempotency_keys VALUES ('thread_full', 'key-cancelled', 'msg_run_cancelled', 'run_cancelled', 1000.5);
INSERT INTO idempotency_keys VALUES ('thread_full', 'key-lost', 'msg_run_lost', 'run_lost', 1000.5);
INSERT INTO idempotency_keys VALUES ('thread_made', 'key-queued', 'msg_run_queued', 'run_queued', 1000.5);

INSERT INTO messages VALUES (3, 'msg_run_completed', 'thread_full', 'user', 'text', 'please completed', 1000.5, 'run_completed');
INSERT INTO messages VALUES (7, 'answer_completed', 'thread_full', 'assistant', 'text', 'done é 🐦', 1000.5, 'run_completed');
INSERT INTO messages VALUES (9, 'msg_run_failed', 'thread_full', 'user', 'text', 'please failed', 1000.5, 'run_failed');
INSERT INTO messages VALUES (14, 'msg_run_timeout', 'thread_full', 'user', 'text', 'please timeout', 1000.5, 'run_timeout');
INSERT INTO messages VALUES (19, 'msg_run_cancelled', 'thread_full', 'user', 'text', 'please cancelled', 1000.5, 'run_cancelled');
INSERT INTO messages VALUES (24, 'msg_run_lost', 'thread_full', 'user', 'text', 'please lost', 1000.5, 'run_lost');
INSERT INTO messages VALUES (30, 'msg_run_running', 'thread_made', 'user', 'text', 'please running', 1000.5, 'run_running');
INSERT INTO messages VALUES (34, 'msg_run_queued', 'thread_made', 'user', 'text', 'please queued', 1000.5, 'run_queued');
INSERT INTO messages VALUES (36, 'note', 'thread_full', 'system', 'result', 'a result', 1, NULL);

INSERT INTO plugin_values VALUES ('space', 'key é', '\x00ff');
INSERT INTO plugin_values VALUES ('space', 'other', '\x7b7d');

INSERT INTO plugins VALUES ('set', false, '{"volume":11,"deep":{"a":1}}');
INSERT INTO plugins VALUES ('on', true, NULL);

INSERT INTO results VALUES ('result_1', '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff', 1794889047.5852284);

INSERT INTO runs VALUES (4, 'run_completed', 'thread_full', NULL, 'old-process', 'completed', 'please completed', 'main', 'scripted', 'm', 'done é 🐦', NULL, NULL, 12, 5, 0.0001, 1000.5, 1001, 1002.75);
INSERT INTO runs VALUES (10, 'run_failed', 'thread_full', 'run_completed', 'old-process', 'failed', 'please failed', 'main', 'scripted', 'm', NULL, 'runtime', 'it broke', 0, 0, 0, 1000.5, 1001, 1002.75);
INSERT INTO runs VALUES (15, 'run_timeout', 'thread_full', NULL, 'old-process', 'timeout', 'please timeout', 'main', 'scripted', 'm', NULL, 'timeout', 'it took too long', 3, 0, 0, 1000.5, 1001, 1002.75);
INSERT INTO runs VALUES (20, 'run_cancelled', 'thread_full', NULL, 'old-process', 'cancelled', 'please cancelled', 'main', 'scripted', 'm', NULL, 'cancelled', 'it was cancelled', 0, 0, 0, 1000.5, 1001, 1002.75);
INSERT INTO runs VALUES (25, 'run_lost', 'thread_full', NULL, 'old-process', 'lost', 'please lost', 'main', 'scripted', 'm', NULL, 'lost', 'the process that ran it is dead', 0, 0, 0, 1000.5, 1001, 1002.75);
INSERT INTO runs VALUES (31, 'run_running', 'thread_made', NULL, 'old-process', 'running', 'please running', 'main', 'scripted', 'm', NULL, NULL, NULL, 0, 0, 0, 1000.5, 1003, NULL);
INSERT INTO runs VALUES (35, 'run_queued', 'thread_made', NULL, 'old-process', 'queued', 'please queued', 'main', 'scripted', 'm', NULL, NULL, NULL, 0, 0, 0, 1000.5, NULL, NULL);

INSERT INTO sequence VALUES ('rows', 41);

INSERT INTO threads VALUES (2, 'thread_empty', 901, '', '', '', '', NULL, NULL);
INSERT INTO threads VALUES (1, 'thread_full', 900, 'A title é', 'main', 'scripted', 'm', 'thread_parent', 'scripted:session-2');
INSERT INTO threads VALUES (29, 'thread_made', 1000.5, '', 'main', 'scripted', 'm', NULL, NULL);

INSERT INTO toolyard_version VALUES (3);

ALTER TABLE ONLY approvals
    ADD CONSTRAINT approvals_id_key UNIQUE (id);

ALTER TABLE ONLY approvals
    ADD CONSTRAINT approvals_pkey PRIMARY KEY (n);

ALTER TABLE ONLY events
    ADD CONSTRAINT events_pkey PRIMARY KEY (n);

ALTER TABLE ONLY idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (thread_id, key);

ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_id_key UNIQUE (id);

ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (n);

ALTER TABLE ONLY plugin_values
    ADD CONSTRAINT plugin_values_pkey PRIMARY KEY (space, key);

ALTER TABLE ONLY plugins
    ADD CONSTRAINT plugins_pkey PRIMARY KEY (name);

ALTER TABLE ONLY results
    ADD CONSTRAINT results_pkey PRIMARY KEY (handle);

ALTER TABLE ONLY runs
    ADD CONSTRAINT runs_id_key UNIQUE (id);

ALTER TABLE ONLY runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (n);

ALTER TABLE ONLY sequence
    ADD CONSTRAINT sequence_pkey PRIMARY KEY (name);

ALTER TABLE ONLY threads
    ADD CONSTRAINT threads_id_key UNIQUE (id);

ALTER TABLE ONLY threads
    ADD CONSTRAINT threads_pkey PRIMARY KEY (n);

CREATE INDEX events_of_run ON events USING btree (run_id, n) WHERE (run_id IS NOT NULL);

CREATE INDEX events_of_task ON events USING btree (task_id, n) WHERE (task_id IS NOT NULL);

CREATE INDEX events_of_thread ON events USING btree (thread_id, n) WHERE (thread_id IS NOT NULL);

CREATE INDEX messages_of_thread ON messages USING btree (thread_id, n);

CREATE INDEX pending_approvals ON approvals USING btree (n) WHERE (decision IS NULL);

CREATE INDEX runs_of_thread ON runs USING btree (thread_id, n);

CREATE INDEX unfinished_runs ON runs USING btree (n) WHERE (ended_at IS NULL);

CREATE INDEX unfinished_runs_of_thread ON runs USING btree (thread_id, n) WHERE (ended_at IS NULL);

ALTER TABLE ONLY idempotency_keys
    ADD CONSTRAINT idempotency_keys_thread_id_fkey FOREIGN KEY (thread_id) REFERENCES threads(id) ON DELETE CASCADE;

ALTER TABLE ONLY messages
    ADD CONSTRAINT messages_thread_id_fkey FOREIGN KEY (thread_id) REFERENCES threads(id) ON DELETE CASCADE;

ALTER TABLE ONLY runs
    ADD CONSTRAINT runs_thread_id_fkey FOREIGN KEY (thread_id) REFERENCES threads(id) ON DELETE CASCADE;

