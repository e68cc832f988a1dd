-- name: entity
SELECT high_water, holder, accepted_at, frozen FROM entities WHERE domain = ? AND entity = ?;

-- name: put_entity
INSERT INTO entities (domain, entity, high_water, holder, accepted_at, frozen)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (domain, entity) DO UPDATE SET
    high_water = excluded.high_water, holder = excluded.holder,
    accepted_at = excluded.accepted_at, frozen = excluded.frozen;

-- name: record
SELECT upstream, caller, key, domain, entity, state, due_at, listening, yields_at, credential,
       scheme, parts, attempts, disowned, tries, hold, retention, tombstone,
       status, headers, length, digest, body
FROM records WHERE upstream = ? AND caller = ? AND key = ?;

-- name: put_record
INSERT INTO records (upstream, caller, key, domain, entity, fence, state, due_at, listening,
    yields_at, credential, scheme, parts, attempts, disowned, tries, hold, retention, tombstone,
    status, headers, length, digest, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (upstream, caller, key) DO UPDATE SET
    domain = excluded.domain, entity = excluded.entity, fence = excluded.fence,
    state = excluded.state, due_at = excluded.due_at, listening = excluded.listening,
    yields_at = excluded.yields_at, credential = excluded.credential, scheme = excluded.scheme,
    parts = excluded.parts, attempts = excluded.attempts, disowned = excluded.disowned,
    tries = excluded.tries, hold = excluded.hold, retention = excluded.retention,
    tombstone = excluded.tombstone, status = excluded.status, headers = excluded.headers,
    length = excluded.length, digest = excluded.digest, body = excluded.body;

-- name: drop_record
DELETE FROM records WHERE upstream = ? AND caller = ? AND key = ?;

-- name: any_below
-- Asked first: mostly there is none, and the index alone knows it.
SELECT 1 FROM records
WHERE domain = :domain AND entity = :entity AND state IN ('open', 'unknown') AND fence < :below
LIMIT 1;

-- name: open_below
-- The one that holds its successors up the longest; what has lapsed or yields holds up nobody.
SELECT fence, due_at, listening, yields_at FROM records
WHERE domain = :domain AND entity = :entity AND state = 'open' AND fence < :below
  AND due_at > :now AND (yields_at IS NULL OR yields_at > :now)
  AND NOT (upstream = :upstream AND caller = :caller AND key = :key)
ORDER BY due_at DESC LIMIT 1;

-- name: unknown_below
SELECT fence FROM records
WHERE domain = :domain AND entity = :entity AND state = 'unknown' AND fence < :below
  AND due_at > :now
  AND NOT (upstream = :upstream AND caller = :caller AND key = :key)
LIMIT 1;

-- name: lapsed
SELECT upstream, caller, key, domain, entity, state, due_at, listening, yields_at, credential,
       scheme, parts, attempts, disowned, tries, hold, retention, tombstone,
       status, headers, length, digest, body
FROM records
WHERE domain = :domain AND entity = :entity AND state = 'open' AND fence < :below
  AND due_at <= :now;

-- name: open_records
SELECT upstream, caller, key, domain, entity, state, due_at, listening, yields_at, credential,
       scheme, parts, attempts, disowned, tries, hold, retention, tombstone,
       status, headers, length, digest, substr(body, 1, 0)
FROM records
WHERE domain = :domain AND entity = :entity AND state = 'open'
  AND (:below IS NULL OR fence < :below) AND due_at > :now
ORDER BY fence, json_extract(attempts, '$[#-1][4]'), key LIMIT :limit;

-- name: count_open
SELECT count(*) FROM records
WHERE domain = :domain AND entity = :entity AND state = 'open'
  AND (:below IS NULL OR fence < :below) AND due_at > :now;

-- name: intent
SELECT upstream, caller, key, since FROM intents
WHERE domain = ? AND entity = ? AND intent = ? AND high_water = ?;

-- name: put_intent
INSERT INTO intents (domain, entity, intent, high_water, upstream, caller, key, since)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (domain, entity, intent) DO UPDATE SET
    high_water = excluded.high_water, upstream = excluded.upstream, caller = excluded.caller,
    key = excluded.key, since = excluded.since;

-- name: leave_index
DELETE FROM intents WHERE upstream = ? AND caller = ? AND key = ?;

-- name: empty_index
DELETE FROM intents WHERE domain = ? AND entity = ?;

-- name: due
SELECT upstream, caller, key, domain, entity, state, due_at, listening, yields_at, credential,
       scheme, parts, attempts, disowned, tries, hold, retention, tombstone,
       status, headers, length, digest, body
FROM records WHERE due_at <= ? ORDER BY due_at LIMIT ?;

-- name: latest
SELECT latest FROM ledger;

-- name: saw
UPDATE ledger SET latest = ? WHERE latest < ?;

-- name: identities
SELECT upstream, item, reading FROM identities;

-- name: drop_identities
DELETE FROM identities;

-- name: add_identity
INSERT INTO identities (upstream, item, reading) VALUES (?, ?, ?);

-- name: count_live
-- One that lapsed is unknown since its hold's end, and is so for `tombstone` from then on.
SELECT count(*) FROM records
WHERE upstream = :upstream AND state IN ('open', 'unknown')
  AND due_at + CASE state WHEN 'open' THEN tombstone ELSE 0 END > :now;

-- name: take_over
-- `taken_over` of core/identity.py for every observed entity at once.
INSERT INTO entities (domain, entity, high_water, holder, accepted_at, frozen)
SELECT substr(domain, length(:observed) + 1), entity, high_water, holder, accepted_at, 0
FROM entities WHERE domain >= :observed AND domain < :past_observed AND high_water > 0
ON CONFLICT (domain, entity) DO UPDATE SET
    high_water = excluded.high_water, holder = excluded.holder,
    accepted_at = excluded.accepted_at
WHERE excluded.high_water > entities.high_water;

-- name: forget_observed
DELETE FROM entities WHERE domain >= :observed AND domain < :past_observed;

-- name: add_journal
INSERT INTO journal (at, kind, code, domain, entity, upstream, caller, key, fence, high_water,
    holder, attempt, other_key, apart)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_audit
INSERT INTO audit (at, actor, act, subject, reason, result) VALUES (?, ?, ?, ?, ?, ?);

-- name: list
SELECT upstream, caller, key, domain, entity, state, due_at, listening, yields_at, credential,
       scheme, parts, attempts, disowned, tries, hold, retention, tombstone,
       status, headers, length, digest, substr(body, 1, 0)
FROM records
WHERE (:in_upstream IS NULL OR upstream = :in_upstream)
  AND (:in_domain IS NULL OR (domain = :in_domain AND entity = :in_entity))
  AND (:in_key IS NULL OR key = :in_key)
  AND (upstream, caller, key) > (:upstream, :caller, :key)
ORDER BY upstream, caller, key LIMIT :limit;

-- name: journal
SELECT number, at, kind, code, domain, entity, upstream, caller, key, fence, high_water, holder,
       attempt, other_key, apart
FROM journal WHERE number > ? ORDER BY number LIMIT ?;

-- name: audit
SELECT number, at, actor, act, subject, reason, result
FROM audit WHERE number > ? ORDER BY number LIMIT ?;
