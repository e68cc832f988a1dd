-- How the gateways on this ledger read identities. Another reading is refused while its upstream
-- has open or unknown records: the index counts them without passing those that are closed.

CREATE TABLE identities (
    upstream TEXT NOT NULL,
    item     TEXT NOT NULL,
    reading  TEXT NOT NULL,
    PRIMARY KEY (upstream, item)
) WITHOUT ROWID;

CREATE INDEX records_live ON records (upstream, state) WHERE state IN ('open', 'unknown');
