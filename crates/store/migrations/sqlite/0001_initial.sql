-- Keys, intents and the log. The PostgreSQL twin differs in two words only: BLOB is BYTEA there. The statements
-- that use these tables are the same text on both.

-- One row a version of a key. Rows are never deleted: a name is never given to another key.
CREATE TABLE keys (
    -- UUIDv7, 16 bytes.
    id                  BLOB   NOT NULL PRIMARY KEY,
    name                TEXT   NOT NULL,
    -- Rotation: 1 for the first key of the name.
    version             BIGINT NOT NULL,
    -- 1 enabled, 2 disabled.
    state               BIGINT NOT NULL CHECK (state IN (1, 2)),
    -- Renewal: grows with each new sealed blob.
    generation          BIGINT NOT NULL,
    -- Grows with each change of the row but last_signed: a reader tells the newer of two copies by it.
    revision            BIGINT NOT NULL,
    algorithm           TEXT   NOT NULL,
    -- OpenPGP fingerprints, 20 or 32 bytes: of the primary key and of the component that signs.
    fingerprint         BLOB   NOT NULL,
    signing_fingerprint BLOB   NOT NULL,
    user_id             TEXT   NOT NULL,
    -- Unix seconds; expires is null for a key without expiry.
    created             BIGINT NOT NULL,
    expires             BIGINT,
    -- The numbers of crypto::usage, one byte each, ascending. What counts is sealed; this is for display.
    usages              BLOB   NOT NULL,
    -- 1 if the primary secret is here, so that the certificate can be renewed.
    renewable           BIGINT NOT NULL CHECK (renewable IN (0, 1)),
    certificate         BLOB   NOT NULL,
    sealed              BLOB   NOT NULL,
    -- Hexadecimal id of the data key under which the blob is sealed, as the signer says; for operators.
    data_key_id         TEXT   NOT NULL,
    -- Time in the latest logged signature, Unix seconds.
    last_signed         BIGINT,
    UNIQUE (name, version)
);
CREATE INDEX keys_fingerprint ON keys (fingerprint);
CREATE UNIQUE INDEX keys_signing_fingerprint ON keys (signing_fingerprint);

-- One row a request, written before the key process is asked. Pruned after the retention.
CREATE TABLE intents (
    principal  TEXT   NOT NULL,
    -- UUIDv7, 16 bytes.
    request_id BLOB   NOT NULL,
    -- SHA-256 of what was asked.
    digest     BLOB   NOT NULL,
    key_id     BLOB   NOT NULL,
    -- UUID of the attempt that works on it; another may take over when the lease has passed.
    attempt    BLOB   NOT NULL,
    -- Unix milliseconds.
    lease_until BIGINT NOT NULL,
    created    BIGINT NOT NULL,
    -- The answer (store/src/outcome.rs); null until there is a final one.
    outcome    BLOB,
    PRIMARY KEY (principal, request_id)
);
CREATE INDEX intents_created ON intents (created);

-- The log: rows are only ever added.
CREATE TABLE log (
    -- Position, from 0, without gaps.
    position  BIGINT NOT NULL PRIMARY KEY,
    -- Canonical bytes (tlog/src/entry.rs) and their RFC 6962 leaf hash.
    entry     BLOB   NOT NULL,
    leaf_hash BLOB   NOT NULL,
    key_id    BLOB   NOT NULL REFERENCES keys (id),
    -- Time in the signature, Unix seconds.
    signed_at BIGINT NOT NULL
);
CREATE INDEX log_key ON log (key_id, position);

-- The head of the log, one row: its size and compact range.
CREATE TABLE log_head (
    id    BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
    size  BIGINT NOT NULL,
    nodes BLOB   NOT NULL
);
INSERT INTO log_head (id, size, nodes) VALUES (1, 0, '');
