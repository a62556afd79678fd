-- What is asked about a key for each signature, and written with it, is now in rows of some 40 bytes: a hundred of them fit on
-- a page, and those of 100,000 keys into the cache of the connection that writes. Before, a signature read a row of several
-- kilobytes, certificate and sealed key and all, and wrote it again to note a time.
CREATE TABLE key_states (
    -- Of keys; a row for each of its rows.
    id          BLOB   NOT NULL PRIMARY KEY REFERENCES keys (id),
    -- 1 enabled, 2 disabled.
    state       BIGINT NOT NULL CHECK (state IN (1, 2)),
    -- Renewal: grows with each new sealed blob.
    generation  BIGINT NOT NULL,
    -- Unix seconds; null for a key without expiry.
    expires     BIGINT,
    -- Time in the latest logged signature before log_head.noted, Unix seconds.
    last_signed BIGINT
) WITHOUT ROWID;
INSERT INTO key_states SELECT id, state, generation, expires, last_signed FROM keys ORDER BY id;

-- The same without these columns, in one go: to drop four of them, SQLite would write the table four times. (On PostgreSQL:
-- ALTER TABLE ... DROP COLUMN.)
CREATE TABLE keys_new (
    id                  BLOB   NOT NULL PRIMARY KEY,
    name                TEXT   NOT NULL,
    -- Rotation: 1 for the first key of the name.
    version             BIGINT NOT NULL,
    -- Grows with each change of the row, and of that in key_states but last_signed: a reader tells the newer of two copies by it.
    revision            BIGINT NOT NULL,
    algorithm           TEXT   NOT NULL,
    -- OpenPGP fingerprints, 20 or 32 bytes: of the primary key and of the component that signs.
    fingerprint         BLOB   NOT NULL,
    signing_fingerprint BLOB   NOT NULL,
    user_id             TEXT   NOT NULL,
    -- Unix seconds.
    created             BIGINT NOT NULL,
    -- The numbers of crypto::usage, one byte each, ascending. What counts is sealed; this is for display.
    usages              BLOB   NOT NULL,
    -- 1 if the primary secret is here, so that the certificate can be renewed.
    renewable           BIGINT NOT NULL CHECK (renewable IN (0, 1)),
    certificate         BLOB   NOT NULL,
    sealed              BLOB   NOT NULL,
    -- Hexadecimal id of the data key under which the blob is sealed, as the signer says; for operators.
    data_key_id         TEXT   NOT NULL,
    -- Where the private key is: 'software', or 'pkcs11:' and the name of a token.
    backend             TEXT   NOT NULL,
    UNIQUE (name, version)
);
INSERT INTO keys_new SELECT id, name, version, revision, algorithm, fingerprint, signing_fingerprint, user_id, created, usages,
    renewable, certificate, sealed, data_key_id, backend FROM keys ORDER BY id;
DROP TABLE keys;
ALTER TABLE keys_new RENAME TO keys;
CREATE INDEX keys_fingerprint ON keys (fingerprint);
CREATE UNIQUE INDEX keys_signing_fingerprint ON keys (signing_fingerprint);

-- Nothing reads it, and each entry wrote a page of it, at a place of its own for each key.
DROP INDEX log_key;

-- Entries before this position are noted in key_states; those that follow are few, and count as well.
ALTER TABLE log_head ADD COLUMN noted BIGINT NOT NULL DEFAULT 0;
UPDATE log_head SET noted = size;
