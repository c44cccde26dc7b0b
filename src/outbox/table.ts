// The outbox table of PostgreSQL: its definition, and the statements that the relay and the tools
// run on it.
//
//   waiting    error IS NULL: the relay will put it
//   set aside  error says why the server or the relay refused it; `retry` makes it wait again
//   gone       the job is in the queue

const NAME = /^(?:[a-z_][a-z0-9_]{0,47}\.)?[a-z_][a-z0-9_]{0,47}$/;

export const TABLE_DEFAULT = "runnerbean_outbox";

/** Tells whether the text is a table's name that needs no quotes, with or without its schema. */
export const isTableName = (text: string): boolean => NAME.test(text);

/** Larger bodies are never read: as hexadecimal text, they would not fit into a string. */
export const BODY_BYTES_MAX: number = 128 << 20;

/** Makes the order of the bytes the order of the index, whatever the database's language. */
const BYTES = 'COLLATE "C"';

/** The statements for one table. `channel` is what its trigger notifies. */
export interface TableStatements {
  readonly create: string;
  readonly channel: string;
  /** The tubes that have waiting rows: one look into the index for each. */
  readonly tubes: string;
  /** Locks tubes ($1) until the end of the transaction, as far as no other relay has them. */
  readonly lock: string;
  /** Rows of these tubes ($1), up to so many of each ($2), up to so many bytes in all ($3). */
  readonly take: string;
  readonly remove: string;
  readonly setAside: string;
  readonly totals: string;
  readonly refused: string;
  readonly retry: string;
}

export function statementsFor(table: string): TableStatements {
  const channel = table.replace(/^.*\./, "");
  const schema = table.slice(0, table.length - channel.length);
  return {
    channel,
    create: `CREATE TABLE IF NOT EXISTS ${table} (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tube text ${BYTES} NOT NULL,
  pri bigint NOT NULL DEFAULT 1024,
  delay numeric NOT NULL DEFAULT 0,            -- seconds
  ttr bigint NOT NULL DEFAULT 60,              -- seconds
  body text,                                   -- one of these two
  body_bytes bytea,
  options jsonb NOT NULL DEFAULT '{}',         -- such as {"ttl": 3600, "meta": {"trace": "7"}}
  key uuid NOT NULL DEFAULT gen_random_uuid(), -- lets the server recognise a repeated put
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  error text,                                  -- why the row is set aside
  refused_at timestamptz
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

CREATE INDEX IF NOT EXISTS ${channel}_waiting ON ${table} (tube, id) WHERE error IS NULL;
CREATE INDEX IF NOT EXISTS ${channel}_refused ON ${table} (id) WHERE error IS NOT NULL;

CREATE OR REPLACE FUNCTION ${schema}${channel}_notify() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_notify('${channel}', ''); RETURN NULL; END $$;

CREATE OR REPLACE TRIGGER ${channel}_notify AFTER INSERT ON ${table}
  FOR EACH STATEMENT EXECUTE FUNCTION ${schema}${channel}_notify();
`,
    tubes: `WITH RECURSIVE found AS (
  (SELECT tube FROM ${table} WHERE error IS NULL ORDER BY tube LIMIT 1)
  UNION ALL
  SELECT (SELECT tube FROM ${table} WHERE error IS NULL AND tube > found.tube ORDER BY tube LIMIT 1)
  FROM found WHERE found.tube IS NOT NULL
) SELECT tube FROM found WHERE tube IS NOT NULL`,
    lock: `SELECT tube FROM unnest($1::text[]) AS tube
WHERE pg_try_advisory_xact_lock(hashtextextended(tube, '${table}'::regclass::oid::bigint))`,
    // The rows of the suffix stay behind, so each tube keeps its order. LIMIT 1 keeps PostgreSQL
    // from reading the whole table: of a large backlog, it expects far more rows than there are.
    take: `WITH locked AS MATERIALIZED (
  SELECT wanted.place, row.id, row.bytes FROM unnest($1::text[], $2::int[]) WITH ORDINALITY AS wanted(tube, most, place),
  LATERAL (
    SELECT id, coalesce(octet_length(body), octet_length(body_bytes), 0) AS bytes FROM ${table}
    WHERE tube = wanted.tube ${BYTES} AND error IS NULL ORDER BY id LIMIT wanted.most FOR UPDATE SKIP LOCKED
  ) AS row
), counted AS (SELECT id, place, bytes, sum(bytes) OVER (ORDER BY place, id) AS total FROM locked)
SELECT counted.id, tube, pri, delay, ttr, options, key, bytes,
  CASE WHEN bytes <= ${BODY_BYTES_MAX} THEN body END AS body,
  CASE WHEN bytes <= ${BODY_BYTES_MAX} THEN body_bytes END AS body_bytes
FROM counted, LATERAL (SELECT * FROM ${table} WHERE id = counted.id LIMIT 1 FOR UPDATE) AS row
WHERE total - bytes < $3 ORDER BY place, counted.id`,
    remove: `DELETE FROM ${table} WHERE id = ANY($1::bigint[])`,
    setAside: `UPDATE ${table} AS row SET error = refusal.error, refused_at = clock_timestamp()
FROM unnest($1::bigint[], $2::text[]) AS refusal(id, error) WHERE row.id = refusal.id`,
    totals: `SELECT count(*) FILTER (WHERE error IS NULL) AS waiting,
  count(*) FILTER (WHERE error IS NOT NULL) AS refused,
  coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE error IS NULL)), 0) AS lag
FROM ${table}`,
    refused: `SELECT id, tube, refused_at, error FROM ${table} WHERE error IS NOT NULL ORDER BY id LIMIT $1`,
    retry: `WITH tried AS (
  UPDATE ${table} SET error = NULL, refused_at = NULL WHERE error IS NOT NULL
  AND ($1::bigint[] IS NULL OR id = ANY($1)) AND ($2::text IS NULL OR tube = $2 ${BYTES}) RETURNING id
) SELECT count(*) AS retried, pg_notify('${channel}', '') FROM tried`,
  };
}
