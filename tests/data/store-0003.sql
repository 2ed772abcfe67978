-- The first schema, as stores of it are; in SQLite's words, but SERIAL.
CREATE TABLE teams (
  name TEXT NOT NULL, role TEXT NOT NULL, created_at DOUBLE NOT NULL,
  CONSTRAINT teams_key PRIMARY KEY (name));
CREATE TABLE people (
  team TEXT NOT NULL, name TEXT NOT NULL, created_at DOUBLE NOT NULL,
  CONSTRAINT people_key PRIMARY KEY (team, name),
  CONSTRAINT people_of_teams FOREIGN KEY (team) REFERENCES teams (name));
CREATE TABLE codes (
  team TEXT NOT NULL, person TEXT NOT NULL, hash TEXT NOT NULL,
  expires_at DOUBLE NOT NULL, maker TEXT,
  CONSTRAINT codes_key PRIMARY KEY (team, person),
  CONSTRAINT codes_of_people FOREIGN KEY (team, person) REFERENCES people (team, name),
  CONSTRAINT codes_hash_once UNIQUE (hash));
CREATE TABLE tokens (
  id TEXT NOT NULL, hash TEXT NOT NULL, team TEXT NOT NULL, person TEXT NOT NULL,
  scopes TEXT NOT NULL, device TEXT NOT NULL, created_at DOUBLE NOT NULL,
  expires_at DOUBLE, last_used DOUBLE, revoked_at DOUBLE,
  CONSTRAINT tokens_key PRIMARY KEY (id),
  CONSTRAINT tokens_of_people FOREIGN KEY (team, person) REFERENCES people (team, name));
CREATE INDEX tokens_by_person ON tokens (team, person);
CREATE TABLE uploads (
  team TEXT NOT NULL, sha256 TEXT NOT NULL, size BIGINT NOT NULL,
  used_at DOUBLE NOT NULL, CONSTRAINT uploads_key PRIMARY KEY (team, sha256));
CREATE INDEX uploads_by_use ON uploads (used_at);
CREATE TABLE runs (
  id TEXT NOT NULL, team TEXT NOT NULL, person TEXT NOT NULL, role TEXT NOT NULL,
  digest TEXT NOT NULL, sha256 TEXT NOT NULL, queued_at DOUBLE NOT NULL,
  project TEXT NOT NULL, engine TEXT NOT NULL, gpus INTEGER NOT NULL,
  priority INTEGER NOT NULL, state TEXT NOT NULL, why TEXT NOT NULL,
  attempt INTEGER NOT NULL, started_at DOUBLE, ended_at DOUBLE,
  reason TEXT, cancelled BOOLEAN NOT NULL, cancelled_at DOUBLE,
  bytes BIGINT NOT NULL, removed BOOLEAN NOT NULL, changed BIGINT NOT NULL,
  CONSTRAINT runs_key PRIMARY KEY (id));
CREATE INDEX runs_by_change ON runs (changed);
CREATE INDEX runs_by_end ON runs (removed, ended_at, id);
CREATE INDEX runs_by_start ON runs (started_at, id);
CREATE INDEX runs_by_state ON runs (state, queued_at, id);
CREATE INDEX runs_by_team ON runs (team, queued_at, id);
CREATE INDEX runs_by_team_and_state ON runs (team, state, queued_at, id);
CREATE INDEX runs_by_time ON runs (queued_at, id);
CREATE TABLE parcels (
  run TEXT NOT NULL, parcel BLOB NOT NULL, secrets TEXT NOT NULL,
  CONSTRAINT parcels_key PRIMARY KEY (run),
  CONSTRAINT parcels_of_runs FOREIGN KEY (run) REFERENCES runs (id));
CREATE TABLE team_bytes (
  team TEXT NOT NULL, bytes BIGINT NOT NULL,
  CONSTRAINT team_bytes_key PRIMARY KEY (team));
CREATE TABLE audit (
  id SERIAL NOT NULL, at DOUBLE NOT NULL, who TEXT NOT NULL,
  act TEXT NOT NULL, about TEXT NOT NULL, CONSTRAINT audit_key PRIMARY KEY (id));
CREATE TABLE server (
  id INTEGER NOT NULL, changes BIGINT NOT NULL, drained TEXT NOT NULL,
  checks BIGINT DEFAULT '0' NOT NULL, CONSTRAINT server_key PRIMARY KEY (id),
  CONSTRAINT server_alone CHECK (id = 1));
CREATE TABLE rai_schema (version_num VARCHAR(32) NOT NULL,
  CONSTRAINT rai_schema_pkc PRIMARY KEY (version_num));
-- A row in each table; x'7b7d' is `{}`.
INSERT INTO teams VALUES ('red', 'staff', 1.5);
INSERT INTO people VALUES ('red', 'ada', 1.5);
INSERT INTO codes VALUES ('red', 'ada', 'c0de', 9.5, NULL);
INSERT INTO tokens VALUES
  ('abc', 'h4sh', 'red', 'ada', 'run staff', 'laptop', 2, NULL, 3, NULL);
INSERT INTO uploads VALUES ('red', '55', 10, 2.5);
INSERT INTO runs VALUES ('0123456789', 'red', 'ada', 'staff', 'd', '55', 3.5, 'net',
  'local', 1, 2, 'ended', 'well', 1, 4.5, 5.5, 'done', FALSE, NULL, 77, FALSE, 6);
INSERT INTO parcels VALUES ('0123456789', x'7b7d', '');
INSERT INTO team_bytes VALUES ('red', 77);
INSERT INTO audit VALUES (1, 7.5, 'ada', 'invite', 'red');
INSERT INTO server VALUES (1, 6, 'why', 0);
INSERT INTO rai_schema VALUES ('0003');
