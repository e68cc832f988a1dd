-- Fences and instants are 64-bit integers; an instant is microseconds by this host's clock.

CREATE TABLE ledger (
    id     TEXT    NOT NULL,
    latest INTEGER NOT NULL          -- the latest instant seen on the clock
);

CREATE TABLE entities (
    domain      TEXT    NOT NULL,
    entity      TEXT    NOT NULL,
    high_water  INTEGER NOT NULL,
    holder      TEXT,
    accepted_at INTEGER,
    frozen      INTEGER NOT NULL,
    PRIMARY KEY (domain, entity)
) WITHOUT ROWID;

CREATE TABLE records (
    id          INTEGER PRIMARY KEY,
    upstream    TEXT    NOT NULL,
    caller      TEXT    NOT NULL,    -- '' where no callers are configured
    key         TEXT    NOT NULL,
    domain      TEXT    NOT NULL,
    entity      TEXT    NOT NULL,
    fence       INTEGER,             -- of the current attempt
    state       TEXT    NOT NULL,    -- open, done, unknown, expired, freed
    due_at      INTEGER,             -- when time changes it next
    listening   INTEGER NOT NULL,
    yields_at   INTEGER,
    credential  TEXT    NOT NULL,
    scheme      TEXT    NOT NULL,
    parts       BLOB    NOT NULL,
    attempts    TEXT    NOT NULL,    -- JSON, oldest first
    disowned    TEXT    NOT NULL,    -- JSON
    tries       INTEGER NOT NULL,
    hold        INTEGER NOT NULL,
    retention   INTEGER NOT NULL,
    tombstone   INTEGER NOT NULL,
    status      INTEGER,             -- of the answer, as the rest below
    headers     TEXT,
    length      INTEGER,
    digest      TEXT,
    body        BLOB,                -- NULL: not kept
    UNIQUE (upstream, caller, key)
);
CREATE INDEX records_of_entity ON records (domain, entity, state, fence);
CREATE INDEX records_due ON records (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE intents (
    domain     TEXT    NOT NULL,
    entity     TEXT    NOT NULL,
    intent     BLOB    NOT NULL,
    high_water INTEGER NOT NULL,     -- of the entity when entered; another one empties the index
    upstream   TEXT    NOT NULL,
    caller     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    since      INTEGER NOT NULL,
    PRIMARY KEY (domain, entity, intent)
) WITHOUT ROWID;
CREATE INDEX intents_of_record ON intents (upstream, caller, key);

CREATE TABLE journal (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    code       TEXT,
    domain     TEXT    NOT NULL,
    entity     TEXT    NOT NULL,
    upstream   TEXT    NOT NULL,
    caller     TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    fence      INTEGER,
    high_water INTEGER,
    holder     TEXT,
    attempt    TEXT,
    other_key  TEXT,
    apart      INTEGER
);

CREATE TABLE audit (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    actor   TEXT    NOT NULL,
    act     TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    result  TEXT    NOT NULL
);
