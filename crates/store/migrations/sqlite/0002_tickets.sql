-- Salt tickets that were used (version 6 keys), so that none is used twice. A row goes away when its ticket has ended by
-- itself. On PostgreSQL: BYTEA for BLOB.
CREATE TABLE tickets (
    -- Random, 16 bytes, drawn when the ticket was handed out.
    id      BLOB   NOT NULL PRIMARY KEY,
    -- When the ticket ends, Unix milliseconds.
    expires BIGINT NOT NULL
);
CREATE INDEX tickets_expires ON tickets (expires);
