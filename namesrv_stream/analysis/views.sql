-- Temporary views over the tables of one snapshot, for analysts who query the history.
--
-- In Python register_views(spark, root) makes them. For a plain spark-sql:
--     namesrv-stream snapshots --sql > registry.sql && spark-sql -S -i registry.sql
--
-- A broker here is (cluster_name, broker_name, broker_id): it stays the same broker when its address changes. broker_key is
-- its one key for tools that join by one column: 'cluster/name/id', each name encoded as in a URL, so without a slash.
-- Days, hours and months are those of UTC, whatever the session's time zone is: they are computed from milliseconds. The
-- views local_hour, local_day and broker_local_availability are those of another zone, if one is given (zone=, --tz).
-- If a view has the column event_month ('2026-11'), a condition on it leaves the files of other months unopened.
--
-- Spark and DuckDB read this very text. DuckDB gets a few functions of Spark as macros (analysis/ask.py), sums of whole
-- numbers are cast (DuckDB makes them wider), whole numbers are divided by floor(a / b), and min_by and max_by get no NULL.
--
-- docs/definitions.md defines the terms: up, expected, down, planned end, outage, flap, writable, degraded.

-- One row for each epoch: the run that published it, and when.
CREATE OR REPLACE TEMPORARY VIEW publication AS
SELECT epoch, term, run_id, query_id, batch_id, published_at, event_time, kind FROM snapshot;

-- One row: the time up to which the history is known, with its day and month. NULL before the first record.
CREATE OR REPLACE TEMPORARY VIEW known_until AS
SELECT known_at, known_day, substring(CAST(known_day AS STRING), 1, 7) AS known_month
FROM (SELECT max(event_time) AS known_at,
             date_from_unix_date(CAST(floor(unix_millis(max(event_time)) / 86400000) AS INT)) AS known_day
      FROM snapshot);

-- One row: the begin of the complete history. A repair of damaged tables may have lost rows of it: then known_epoch is the
-- last epoch that lacks some and known_at its time, else they are 0 and NULL. Sessions that began before are cut there, and
-- views of what was expected begin 7 days later, at expected_at: until then a broker may be down since before known_at.
CREATE OR REPLACE TEMPORARY VIEW known_from AS
SELECT CAST(0 /*lost_epoch*/ AS BIGINT) AS known_epoch, timestamp_millis(CAST(NULL /*lost_ms*/ AS BIGINT)) AS known_at,
       timestamp_millis(CAST(NULL /*lost_ms*/ AS BIGINT)) + INTERVAL 168 HOURS AS expected_at;

-- One row for each session: a period in which a broker was in the routes. While a session lasts, to_time and ended_by are
-- NULL and last_addr is the present address. back_at: begin of the broker's next session. zone_name: zone of the broker at
-- the end of the session.
--
-- If one address was registered as the broker from the begin of its lease to its end, the event of the end has all facts of
-- the session, and `live` has those of a session that lasts. Events are followed one by one only for brokers that have ever
-- passed between addresses that were up (a promotion, a new address). They are selected by a hash, which is faster to
-- join by: another broker with the same hash is followed too, with the same sessions as result.
CREATE OR REPLACE TEMPORARY VIEW broker_session AS
WITH handed_over AS (
  SELECT DISTINCT xxhash64(cluster_name, broker_name, broker_id) AS broker
  FROM broker_event
  WHERE type IN ('ID_TAKEN', 'ID_LOST') AND epoch > 0 /*lost_epoch*/
), known_line AS (
  SELECT /*+ BROADCAST(handed_over) */
         cluster_name, broker_name, broker_id, broker_addr, epoch, seq, event_time, type, last_heard_at, zone_name,
         held_id, type IN ('REGISTERED', 'ID_TAKEN') AS begins
  FROM broker_event SEMI JOIN handed_over ON xxhash64(cluster_name, broker_name, broker_id) = broker
  WHERE epoch > 0 /*lost_epoch*/ AND (
        type IN ('REGISTERED', 'ID_TAKEN', 'ID_LOST')
     OR type IN ('EXPIRED', 'UNREGISTERED', 'CHANNEL_CLOSED', 'MOVED', 'REFUSED') AND lease_millis IS NOT NULL)
), line AS (  -- with a begin for each broker that was up where the history begins to be whole
  SELECT cluster_name, broker_name, broker_id, broker_addr, epoch, seq, event_time, type, last_heard_at, zone_name, begins
  FROM known_line
  UNION ALL
  SELECT cluster_name, broker_name, broker_id, broker_addr, known_epoch, -1, known_at, 'REGISTERED', NULL, zone_name, true
  FROM (SELECT *, row_number() OVER (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq) AS place
        FROM known_line WHERE begins OR held_id) first_line CROSS JOIN known_from
  WHERE place = 1 AND NOT begins AND 0 /*lost_epoch*/ > 0
), counted AS (
  SELECT *, sum(IF(begins, 1, 0)) OVER (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq) AS holder
  FROM line
), followed AS (
  SELECT *, first_value(broker_addr) OVER (PARTITION BY cluster_name, broker_name, broker_id, holder
                                           ORDER BY epoch, seq) AS holder_addr
  FROM counted
), of_holder AS (  -- leaves out lines of an address that had lost the id before
  SELECT *,
         lag(begins) OVER of_broker AS began_before,
         type = 'ID_LOST' AND lead(begins) OVER of_broker AND lead(event_time) OVER of_broker = event_time AS hands_over,
         lag(type) OVER of_broker = 'ID_LOST' AND lag(event_time) OVER of_broker = event_time AS takes_over
  FROM followed
  WHERE begins OR holder > 0 AND holder_addr = broker_addr
  WINDOW of_broker AS (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq)
), edge AS (
  SELECT *,
         lead(event_time) OVER of_broker AS next_time,
         lead(type) OVER of_broker AS next_type,
         lead(last_heard_at) OVER of_broker AS next_last_heard_at,
         lead(broker_addr) OVER of_broker AS next_addr,
         lead(zone_name) OVER of_broker AS next_zone
  FROM of_holder
  WHERE IF(begins, NOT coalesce(takes_over, false), coalesce(began_before, false) AND NOT coalesce(hands_over, false))
  WINDOW of_broker AS (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq)
), session AS (
  SELECT cluster_name, broker_name, broker_id, edge.broker_addr AS first_addr,
         coalesce(next_addr, broker.broker_addr) AS last_addr,
         event_time AS from_time, next_time AS to_time, next_type AS ended_by, next_last_heard_at AS last_heard_at,
         IF(next_time IS NULL, broker.zone_name, next_zone) AS zone_name
  FROM edge LEFT JOIN broker USING (cluster_name, broker_name, broker_id)
  WHERE begins
  UNION ALL
  SELECT /*+ BROADCAST(handed_over) */
         cluster_name, broker_name, broker_id, broker_addr, broker_addr,
         greatest(timestamp_millis(unix_millis(event_time) - lease_millis), (SELECT known_at FROM known_from)), event_time, type,
         last_heard_at, zone_name
  FROM broker_event ANTI JOIN handed_over ON xxhash64(cluster_name, broker_name, broker_id) = broker
  WHERE type IN ('EXPIRED', 'UNREGISTERED', 'CHANNEL_CLOSED', 'MOVED', 'REFUSED') AND lease_millis IS NOT NULL
    AND epoch > 0 /*lost_epoch*/ AND (0 /*lost_epoch*/ = 0 OR held_id)
  UNION ALL
  SELECT cluster_name, broker_name, broker_id, broker_addr, broker_addr,
         greatest(lease_began_at, (SELECT known_at FROM known_from)), NULL, NULL, NULL, broker.zone_name
  FROM broker JOIN (SELECT broker_addr, lease_began_at FROM live) USING (broker_addr)
       ANTI JOIN handed_over ON xxhash64(cluster_name, broker_name, broker_id) = broker
), beside AS (
  SELECT *,
         lead(from_time) OVER (  -- by two hashes of 96 bits in all, as comparing names takes longer than all else
           PARTITION BY xxhash64(cluster_name, broker_name, broker_id), hash(cluster_name, broker_name, broker_id)
           ORDER BY from_time, to_time NULLS LAST
         ) AS back_at
  FROM session
)
SELECT cluster_name, broker_name, broker_id, first_addr, last_addr, from_time, to_time, ended_by, last_heard_at, back_at,
       unix_millis(coalesce(to_time, (SELECT known_at FROM known_until))) - unix_millis(from_time) AS session_millis,
       concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) AS broker_key, zone_name
FROM beside;

-- One row for each command that retired a broker that was down: from retired_at on it is not expected. former_at: time of
-- its former retirement.
CREATE OR REPLACE TEMPORARY VIEW broker_retirement AS
SELECT cluster_name, broker_name, broker_id, concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) AS broker_key,
       event_time AS retired_at, requested_by, reason,
       lag(event_time) OVER (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq) AS former_at
FROM broker_event
WHERE type = 'RETIRE_BROKER' AND NOT held_id;

-- One row for each time in which operators have planned that a subject may be away: 'zone/eu-a', 'cluster/c1', 'group/broker-a'
-- or 'broker/c1/broker-a/0', each name encoded as in a URL. Times of one subject that meet are one.
CREATE OR REPLACE TEMPORARY VIEW planned_absence AS
WITH planned AS (
  SELECT regexp_extract(key, '^((broker|group|zone|cluster)/.*)@[0-9]{1,15}$', 1) AS subject, try_cast(regexp_extract(key, '@([0-9]+)$', 1) AS BIGINT) AS begin_ms,
         try_cast(get_json_object(value, '$.until') AS BIGINT) AS end_ms
  FROM kv_config
  WHERE namespace = 'NAMESRV_STREAM_PLANNED' AND value IS NOT NULL
), beside AS (
  SELECT *, IF(begin_ms <= max(end_ms) OVER (PARTITION BY subject ORDER BY begin_ms, end_ms
                                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0, 1) AS begins
  FROM planned
  WHERE subject <> '' AND begin_ms < end_ms AND end_ms <= begin_ms + 518400000
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY subject ORDER BY begin_ms, end_ms
                              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
  FROM beside
)
SELECT subject, min(begin_ms) AS from_millis, max(end_ms) AS until_millis
FROM numbered
GROUP BY subject, number;

-- One row for each session, as a period in which the broker was expected: up from from_millis to up_until_millis, then
-- down to expected_until_millis.
--
-- A broker is expected from its first registration on. After a planned end it is not expected until it is back: it
-- unregistered, moved to another cluster or name, or another address registered as it. After any other end it is down until
-- it is back, for 7 days at most. Then it has aged out. So the figures of a time do not depend on the time at which the
-- broker comes back. The figures of any period are sums over the parts of stretches within it.
-- A broker that is down and retired by an operator is not expected from retired_at on.
--
-- An end within a planned absence is planned if the broker is back before the end of that, or it still lasts:
-- planned_until_millis is the time up to which the broker was away by plan, else it is up_until_millis. If the broker is not
-- back in time, the end is unplanned, also that of a broker that unregistered.
CREATE OR REPLACE TEMPORARY VIEW broker_stretch AS
WITH away AS (
  SELECT session.*, retired_at, unix_millis(from_time) AS from_millis,
         unix_millis(coalesce(to_time, known_at)) AS up_until_millis,
         unix_millis(least(to_time + INTERVAL 168 HOURS, coalesce(back_at, known_at), coalesce(retired_at, known_at)))
           AS away_until_millis,
         IF(ended_by IN ('MOVED', 'ID_LOST'), NULL,
            greatest(of_broker.until_millis, of_group.until_millis, of_zone.until_millis, of_cluster.until_millis)) AS plan_millis
  FROM broker_session session CROSS JOIN known_until
       LEFT JOIN broker_retirement retired
         ON session.broker_key = retired.broker_key AND to_time <= retired_at AND coalesce(to_time > former_at, true)
            AND coalesce(retired_at < back_at, true)
       LEFT JOIN planned_absence of_broker
         ON concat('broker/', session.broker_key) = of_broker.subject
            AND unix_millis(to_time) >= of_broker.from_millis AND unix_millis(to_time) < of_broker.until_millis
       LEFT JOIN planned_absence of_group
         ON concat('group/', url_encode(session.broker_name)) = of_group.subject
            AND unix_millis(to_time) >= of_group.from_millis AND unix_millis(to_time) < of_group.until_millis
       LEFT JOIN planned_absence of_zone
         ON concat('zone/', url_encode(coalesce(session.zone_name, ''))) = of_zone.subject
            AND unix_millis(to_time) >= of_zone.from_millis AND unix_millis(to_time) < of_zone.until_millis
       LEFT JOIN planned_absence of_cluster
         ON concat('cluster/', url_encode(session.cluster_name)) = of_cluster.subject
            AND unix_millis(to_time) >= of_cluster.from_millis AND unix_millis(to_time) < of_cluster.until_millis
), judged AS (
  SELECT *, coalesce(away_until_millis < plan_millis, false) AS is_planned FROM away
), ended AS (
  SELECT *, to_time IS NOT NULL AND NOT is_planned
            AND (ended_by NOT IN ('UNREGISTERED', 'MOVED', 'ID_LOST') OR plan_millis IS NOT NULL) AS is_unplanned
  FROM judged
)
SELECT cluster_name, broker_name, broker_id, first_addr, last_addr, from_time, to_time, ended_by, last_heard_at, back_at,
       session_millis, broker_key, zone_name, retired_at, from_millis, up_until_millis,
       IF(is_unplanned, away_until_millis, up_until_millis) AS expected_until_millis,
       IF(is_planned, away_until_millis, up_until_millis) AS planned_until_millis, is_planned, is_unplanned
FROM ended;

-- One row for each restart of a broker: it unregistered, and was back within ten minutes. A rolling restart is many of them,
-- one after the other. A longer time away is an absence.
CREATE OR REPLACE TEMPORARY VIEW broker_restart AS
SELECT substring(CAST(date_from_unix_date(CAST(floor(unix_millis(to_time) / 86400000) AS INT)) AS STRING), 1, 7) AS month,
       cluster_name, zone_name, broker_name, broker_id, broker_key, to_time AS stopped_at, back_at,
       unix_millis(back_at) - unix_millis(to_time) AS away_millis
FROM broker_session
WHERE ended_by = 'UNREGISTERED' AND back_at <= to_time + INTERVAL 10 MINUTES;

-- One row for each outage of a broker: the time after a session that ended unplanned. It lasts until the broker is back, for
-- 7 days at most, as in broker_stretch. The sum of down_millis is what availability lacks.
--
-- zone_name and broker_addr: those of the broker as it went down. back_at and away_millis: time of its return and time until
-- then, NULL if it did not return within 7 days. down_millis: time for which it was, or has been, down.
CREATE OR REPLACE TEMPORARY VIEW outage AS
SELECT substring(CAST(date_from_unix_date(CAST(floor(unix_millis(to_time) / 86400000) AS INT)) AS STRING), 1, 7) AS month,
       cluster_name, zone_name, broker_name, broker_id, broker_key, last_addr AS broker_addr, ended_by,
       coalesce(last_heard_at, to_time) AS last_heard_at, to_time AS gone_at,
       IF(unix_millis(back_at) = expected_until_millis, back_at, NULL) AS back_at,
       IF(unix_millis(back_at) = expected_until_millis, expected_until_millis - up_until_millis, NULL) AS away_millis,
       expected_until_millis - up_until_millis AS down_millis,
       session_millis, retired_at
FROM broker_stretch
WHERE is_unplanned;

-- One row for each broker that is down: expected, and not up. gone_at: end of its lease. last_heard_at: its last heartbeat.
-- broker_addr: its last address. zone_name: its zone at that time.
CREATE OR REPLACE TEMPORARY VIEW broker_down AS
SELECT cluster_name, broker_name, broker_id, broker_key, outage.zone_name, outage.broker_addr, ended_by, last_heard_at, gone_at
FROM outage CROSS JOIN known_until ANTI JOIN broker USING (cluster_name, broker_name, broker_id)
WHERE back_at IS NULL AND retired_at IS NULL AND gone_at + INTERVAL 168 HOURS > known_at;

-- One row for each broker and day on which it was expected or in planned absence: its time in the routes, its expected time,
-- and its time in planned absence, which is no part of the expected one. availability is NULL on a day without expected time.
CREATE OR REPLACE TEMPORARY VIEW broker_availability AS
WITH part AS (
  SELECT *, explode(sequence(CAST(floor(from_millis / 86400000) AS BIGINT),
                             CAST(floor(greatest(expected_until_millis, planned_until_millis) / 86400000) AS BIGINT))) AS day_number
  FROM broker_stretch
), of_day AS (
  SELECT cluster_name, broker_name, broker_id, broker_key, day_number,
         CAST(sum(greatest(0, least(up_until_millis, (day_number + 1) * 86400000)
                              - greatest(from_millis, day_number * 86400000))) AS BIGINT) AS up_millis,
         CAST(sum(greatest(0, least(expected_until_millis, (day_number + 1) * 86400000)
                              - greatest(from_millis, day_number * 86400000))) AS BIGINT) AS expected_millis,
         CAST(sum(greatest(0, least(planned_until_millis, (day_number + 1) * 86400000)
                              - greatest(up_until_millis, day_number * 86400000))) AS BIGINT) AS planned_millis
  FROM part
  GROUP BY cluster_name, broker_name, broker_id, broker_key, day_number
)
SELECT cluster_name, broker_name, broker_id, date_from_unix_date(CAST(day_number AS INT)) AS day,
       up_millis, expected_millis, up_millis / nullif(expected_millis, 0) AS availability, broker_key, planned_millis
FROM of_day
WHERE expected_millis + planned_millis > 0 AND day_number * 86400000 >= coalesce(unix_millis((SELECT expected_at FROM known_from)), 0);

-- One row for each hour of the zone, on all local days from the first session's to that of the end of the last stretch, the
-- first and the last one whole: its local day, its month ('2026-10') and its number, and the time from from_millis to before
-- until_millis. An hour that comes twice has two rows, one that is left out has none, and utc_offset_minutes tells them
-- apart. Time is counted in quarters, as some zones are by half hours beside UTC.
CREATE OR REPLACE TEMPORARY VIEW local_hour AS
WITH quarter AS (
  SELECT first_millis, last_millis, explode(sequence(CAST(floor(first_millis / 86400000) * 96 AS BIGINT) - 192,
                                                     CAST(floor(last_millis / 86400000) * 96 AS BIGINT) + 288)) AS number
  FROM (SELECT min(from_millis) AS first_millis, max(expected_until_millis) AS last_millis FROM broker_stretch)
  WHERE first_millis IS NOT NULL
), local AS (
  SELECT number * 900000 AS millis, unix_millis(from_utc_timestamp(timestamp_millis(number * 900000), 'UTC')) AS local_millis,
         unix_millis(from_utc_timestamp(timestamp_millis(first_millis), 'UTC')) AS first_local,
         unix_millis(from_utc_timestamp(timestamp_millis(last_millis), 'UTC')) AS last_local
  FROM quarter
)
SELECT date_from_unix_date(CAST(floor(local_millis / 86400000) AS INT)) AS day,
       substring(CAST(date_from_unix_date(CAST(floor(local_millis / 86400000) AS INT)) AS STRING), 1, 7) AS month,
       CAST(floor(local_millis / 3600000) - floor(local_millis / 86400000) * 24 AS INT) AS hour,
       CAST(floor((local_millis - millis) / 60000) AS INT) AS utc_offset_minutes,
       min(millis) AS from_millis, max(millis) + 900000 AS until_millis
FROM local
WHERE floor(local_millis / 86400000) BETWEEN floor(first_local / 86400000) AND floor(last_local / 86400000)
GROUP BY floor(local_millis / 86400000), floor(local_millis / 3600000), local_millis - millis;

-- One row for each local day of the zone, whole, of 23 to 25 hours (by half hours in Lord Howe): its month, and the time from
-- from_millis to before until_millis.
CREATE OR REPLACE TEMPORARY VIEW local_day AS
SELECT day, month, min(from_millis) AS from_millis, max(until_millis) AS until_millis FROM local_hour GROUP BY day, month;

-- One row for each broker and local day of the zone on which it was expected, as in broker_availability. For a month divide
-- the sums of up_millis and expected_millis. For an hour of a day join broker_stretch with local_hour in the same way.
CREATE OR REPLACE TEMPORARY VIEW broker_local_availability AS
WITH stretch AS (  -- by days of UTC, of which each local day meets two or three
  SELECT *, explode(sequence(CAST(floor(from_millis / 86400000) AS BIGINT) - 1,
                             CAST(floor(expected_until_millis / 86400000) AS BIGINT) + 1)) AS day_number
  FROM broker_stretch
), part AS (
  SELECT cluster_name, broker_name, broker_id, broker_key, local_day.day, month, local_day.from_millis AS day_millis,
         greatest(0, least(up_until_millis, until_millis) - greatest(stretch.from_millis, local_day.from_millis)) AS up,
         least(expected_until_millis, until_millis) - greatest(stretch.from_millis, local_day.from_millis) AS expected
  FROM stretch JOIN local_day ON date_from_unix_date(CAST(day_number AS INT)) = local_day.day
)
SELECT cluster_name, broker_name, broker_id, day, month, CAST(sum(up) AS BIGINT) AS up_millis,
       CAST(sum(expected) AS BIGINT) AS expected_millis, sum(up) / sum(expected) AS availability, broker_key
FROM part
WHERE expected > 0 AND day_millis >= coalesce(unix_millis((SELECT expected_at FROM known_from)), 0)
GROUP BY cluster_name, broker_name, broker_id, broker_key, day, month;

-- One row for each cluster and day: the availability of all its brokers together, and of its worst one. For a longer
-- time divide the sums of up_millis and expected_millis. A mean of days would give a day with few brokers the same
-- weight as any other day.
CREATE OR REPLACE TEMPORARY VIEW cluster_availability AS
SELECT cluster_name, day,
       count(*) AS brokers,
       CAST(sum(up_millis) AS BIGINT) AS up_millis,
       CAST(sum(expected_millis) AS BIGINT) AS expected_millis,
       sum(up_millis) / sum(expected_millis) AS availability,
       min(availability) AS worst_availability,
       min_by(concat(broker_name, ' ', broker_id), (availability, broker_name, broker_id)) AS worst_broker,
       min_by(broker_key, (availability, broker_name, broker_id)) AS worst_broker_key
FROM broker_availability
WHERE expected_millis > 0
GROUP BY cluster_name, day;

-- One row for each group of two or more brokers that went down unplanned, each within a minute of the one before: the
-- outage of a zone, a switch or a host. A silent broker counts at its last heartbeat, so brokers that fail together are
-- together here, whenever they expire. The view counts leases that end: a failed master counts even if a slave has registered
-- as the master before it expires. It leaves out ends by plan. `which` has each broker as
-- 'cluster name id', broker_keys by its key.
CREATE OR REPLACE TEMPORARY VIEW shared_outage AS
WITH gone AS (
  SELECT cluster_name, concat_ws(' ', cluster_name, broker_name, broker_id) AS broker,
         concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) AS broker_key,
         IF(type = 'EXPIRED', last_heard_at, event_time) AS gone_at
  FROM broker_event
       ANTI JOIN (SELECT broker_key AS planned_key, to_time AS planned_at FROM broker_stretch WHERE is_planned) planned
         ON concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) = planned_key AND event_time = planned_at
       LEFT JOIN planned_absence of_broker
         ON NOT held_id AND concat_ws('/', 'broker', url_encode(cluster_name), url_encode(broker_name), broker_id) = of_broker.subject
            AND unix_millis(event_time) >= of_broker.from_millis AND unix_millis(event_time) < of_broker.until_millis
       LEFT JOIN planned_absence of_group
         ON NOT held_id AND concat('group/', url_encode(broker_name)) = of_group.subject
            AND unix_millis(event_time) >= of_group.from_millis AND unix_millis(event_time) < of_group.until_millis
       LEFT JOIN planned_absence of_zone
         ON NOT held_id AND concat('zone/', url_encode(coalesce(zone_name, ''))) = of_zone.subject
            AND unix_millis(event_time) >= of_zone.from_millis AND unix_millis(event_time) < of_zone.until_millis
       LEFT JOIN planned_absence of_cluster
         ON NOT held_id AND concat('cluster/', url_encode(cluster_name)) = of_cluster.subject
            AND unix_millis(event_time) >= of_cluster.from_millis AND unix_millis(event_time) < of_cluster.until_millis
  WHERE type IN ('EXPIRED', 'CHANNEL_CLOSED', 'REFUSED') AND lease_millis IS NOT NULL AND epoch > 0 /*lost_epoch*/
    AND coalesce(of_broker.subject, of_group.subject, of_zone.subject, of_cluster.subject) IS NULL
  UNION ALL  -- those that unregistered by plan, and were not back in time
  SELECT cluster_name, concat_ws(' ', cluster_name, broker_name, broker_id), broker_key, gone_at
  FROM outage
  WHERE ended_by = 'UNREGISTERED'
), following AS (
  SELECT *, IF(gone_at <= lag(gone_at) OVER (ORDER BY gone_at) + INTERVAL 1 MINUTE, 0, 1) AS begins
  FROM gone
), numbered AS (
  SELECT *, sum(begins) OVER (ORDER BY gone_at) AS group_number FROM following
), of_group AS (
  SELECT min(gone_at) AS first_gone_at, max(gone_at) AS last_gone_at, count(DISTINCT broker) AS brokers,
         array_sort(array_agg(DISTINCT cluster_name)) AS cluster_names, array_sort(array_agg(DISTINCT broker)) AS which,
         array_sort(array_agg(DISTINCT broker_key)) AS broker_keys
  FROM numbered
  GROUP BY group_number
)
SELECT substring(CAST(date_from_unix_date(CAST(floor(unix_millis(first_gone_at) / 86400000) AS INT)) AS STRING), 1, 7)
         AS event_month, of_group.*
FROM of_group CROSS JOIN known_from
WHERE brokers >= 2 AND coalesce(first_gone_at > known_at + INTERVAL 1 MINUTE, true);

-- One row for each cluster, zone and month with outages: their number, the number that is over (repaired: the broker was
-- back within 7 days), the mean time to repair of those (mttr_millis), and the time of the longest, which may still last.
-- zone_name: zone at that time, NULL for brokers that sent none.
CREATE OR REPLACE TEMPORARY VIEW zone_outage AS
SELECT month, cluster_name, zone_name, count(*) AS outages, count(DISTINCT broker_key) AS brokers,
       count(away_millis) AS repaired, CAST(floor(avg(away_millis)) AS BIGINT) AS mttr_millis,
       max(down_millis) AS longest_millis
FROM outage
GROUP BY month, cluster_name, zone_name;

-- One row for each broker and month in which a session of it ended unplanned. A flap is an unplanned end after which
-- the broker was back within 10 minutes. The broker with flap_rank 1 has flapped most in that month.
CREATE OR REPLACE TEMPORARY VIEW broker_flapping AS
WITH fallen AS (
  SELECT month, cluster_name, broker_name, broker_id, count(*) AS unplanned_ends,
         count(*) FILTER (WHERE away_millis <= 600000) AS flaps, min(session_millis) AS shortest_session_millis, broker_key
  FROM outage
  GROUP BY month, cluster_name, broker_name, broker_id, broker_key
)
SELECT rank() OVER (PARTITION BY month ORDER BY flaps DESC, unplanned_ends DESC) AS flap_rank, * FROM fallen;

-- One row for each expired lease: the time from its last heartbeat to its end.
CREATE OR REPLACE TEMPORARY VIEW time_to_expiry AS
SELECT event_month, event_time, epoch, cluster_name, broker_name, broker_id, broker_addr, last_heard_at,
       unix_millis(event_time) - unix_millis(last_heard_at) AS expiry_millis, lease_millis,
       concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) AS broker_key
FROM broker_event
WHERE type = 'EXPIRED';

-- One row for each topic that only one broker name has: without that broker name the topic has no route.
CREATE OR REPLACE TEMPORARY VIEW topic_with_one_broker AS
SELECT topic, min(broker_name) AS broker_name, min(write_queue_nums) AS write_queue_nums
FROM topic
GROUP BY topic
HAVING count(*) = 1;

-- One row for each broker name that is in the routes: cluster and zone of its latest registration (D6), as lookups show
-- them, and its number of brokers. A broker name may be in several clusters at once (table `cluster`), so a join of
-- `topic` or `broker` with `cluster` by broker_name only can give a row twice. A join with this view cannot.
CREATE OR REPLACE TEMPORARY VIEW broker_name_dim AS
SELECT broker_name, max_by(cluster_name, registered_at) AS cluster_name,
       nullif(max_by(coalesce(zone_name, ''), registered_at), '') AS zone_name,
       count(*) AS brokers, count(*) FILTER (WHERE broker_id = 0) > 0 AS has_master
FROM broker
GROUP BY broker_name;

-- One row for each topic and broker name, with the cluster and zone of the broker name.
CREATE OR REPLACE TEMPORARY VIEW topic_placement AS
SELECT topic, broker_name, cluster_name, zone_name, read_queue_nums, write_queue_nums, perm,
       (perm & 4) <> 0 AS is_readable, (perm & 2) <> 0 AS is_writable
FROM topic LEFT JOIN broker_name_dim USING (broker_name);

-- One row for each broker that has ever been in the routes, with its latest address and zone. last_seen_at: last time in the
-- routes. While it is there, the time up to which the history is known.
CREATE OR REPLACE TEMPORARY VIEW broker_dim AS
SELECT broker_key, cluster_name, broker_name, broker_id,
       nullif(max_by(coalesce(zone_name, ''), from_time), '') AS zone_name, max_by(last_addr, from_time) AS broker_addr,
       count(*) FILTER (WHERE to_time IS NULL) > 0 AS is_in_routes, min(from_time) AS first_seen_at,
       max(coalesce(to_time, known_at)) AS last_seen_at, count(*) AS sessions
FROM broker_session CROSS JOIN known_until
GROUP BY broker_key, cluster_name, broker_name, broker_id;

-- One row for each broker name: its place as in broker_name_dim, and its number of topics and queues.
CREATE OR REPLACE TEMPORARY VIEW topic_spread AS
SELECT cluster_name, zone_name, broker_name,
       count(topic) AS topics,
       CAST(sum(write_queue_nums) AS BIGINT) AS write_queues,
       CAST(sum(read_queue_nums) AS BIGINT) AS read_queues,
       count(*) FILTER (WHERE (perm & 2) = 0) AS topics_not_writable
FROM broker_name_dim LEFT JOIN topic USING (broker_name)
GROUP BY cluster_name, zone_name, broker_name;

-- One row for each topic and broker name that an event changed. before and after: the row of `topic`, a struct, NULL if
-- there was or is none. requested_by and reason: sender of the request and its reason, if the record has them.
CREATE OR REPLACE TEMPORARY VIEW topic_change AS
SELECT event_month, line.event_time, epoch, seq, type, cause, requested_by, reason,
       row_change.topic, row_change.broker_name, topic_before AS before, topic_after AS after
FROM row_change JOIN broker_event line USING (event_month, epoch, seq)
WHERE table_name = 'topic';

-- One row for each broker whose row in `broker` an event changed, in the same form. cluster_name and broker_key are those
-- after the change, or before it if no address is registered as the broker any more.
CREATE OR REPLACE TEMPORARY VIEW broker_change AS
WITH change AS (
  SELECT event_month, line.event_time, epoch, seq, type, cause, requested_by, reason,
         coalesce(broker_after.cluster_name, broker_before.cluster_name) AS cluster_name,
         row_change.broker_name, row_change.broker_id, broker_before AS before, broker_after AS after
  FROM row_change JOIN broker_event line USING (event_month, epoch, seq)
  WHERE table_name = 'broker'
)
SELECT *, concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) AS broker_key FROM change;

-- One row for each period in which the lease of an address was registered with one release of RocketMQ (5.4.0). An
-- upgrade ends one and begins another. to_time is NULL while it lasts. A broker with an unknown release has no row.
CREATE OR REPLACE TEMPORARY VIEW broker_release AS
WITH line AS (
  SELECT coalesce(live_after.broker_addr, live_before.broker_addr) AS addr, live_before, live_after, line.event_time, epoch, seq
  FROM row_change JOIN broker_event line USING (event_month, epoch, seq)
  WHERE table_name = 'live' AND epoch > 0 /*lost_epoch*/
), change AS (
  SELECT live_after.cluster_name AS cluster_name, live_after.broker_name AS broker_name, live_after.broker_id AS broker_id,
         addr AS broker_addr, live_after.broker_version AS broker_version, event_time AS from_time,
         lead(event_time) OVER of_address AS to_time
  FROM line
  WHERE live_before.broker_version IS DISTINCT FROM live_after.broker_version
     OR live_before.broker_name IS DISTINCT FROM live_after.broker_name
     OR live_before.broker_id IS DISTINCT FROM live_after.broker_id
     OR live_before.cluster_name IS DISTINCT FROM live_after.cluster_name
  WINDOW of_address AS (PARTITION BY addr ORDER BY epoch, seq)
), known AS (  -- with what was registered where the history begins to be whole
  SELECT * FROM change
  UNION ALL
  SELECT live_before.cluster_name, live_before.broker_name, live_before.broker_id, addr, live_before.broker_version, known_at, event_time
  FROM (SELECT *, row_number() OVER (PARTITION BY addr ORDER BY epoch, seq) AS place FROM line) first_line CROSS JOIN known_from
  WHERE place = 1 AND live_before IS NOT NULL AND 0 /*lost_epoch*/ > 0
  UNION ALL
  SELECT cluster_name, broker_name, broker_id, broker_addr, broker_version, greatest(lease_began_at, known_at), NULL
  FROM live ANTI JOIN line ON live.broker_addr = line.addr CROSS JOIN known_from
  WHERE 0 /*lost_epoch*/ > 0
)
SELECT known.*, concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id) AS broker_key
FROM known
WHERE broker_version IS NOT NULL;

-- One row for each command that deleted a topic in all clusters, at its first event, and broker name that ever had the topic.
CREATE OR REPLACE TEMPORARY VIEW topic_deletion AS
WITH command AS (
  SELECT deleted_topic AS topic, epoch, partition, line.offset, min(event_time) AS event_time, min(seq) AS seq, min(type) AS cause
  FROM broker_event line
  WHERE deleted_topic IS NOT NULL
  GROUP BY deleted_topic, epoch, partition, line.offset
)
SELECT topic, broker_name, event_time, epoch, seq, cause
FROM command JOIN (SELECT DISTINCT topic, broker_name FROM row_change WHERE table_name = 'topic') known USING (topic);

-- One row for each topic and broker name that had it at the begin of the complete history (known_from). No row if the
-- history never lost one.
CREATE OR REPLACE TEMPORARY VIEW topic_known AS
WITH change AS (
  SELECT topic, broker_name, before, row_number() OVER (PARTITION BY topic, broker_name ORDER BY epoch, seq) AS place
  FROM topic_change
  WHERE epoch > 0 /*lost_epoch*/ AND 0 /*lost_epoch*/ > 0
), known AS (
  SELECT topic, broker_name, before.perm AS perm FROM change WHERE place = 1 AND before IS NOT NULL
  UNION ALL
  SELECT topic, broker_name, perm FROM topic ANTI JOIN change USING (topic, broker_name) WHERE 0 /*lost_epoch*/ > 0
)
SELECT topic, broker_name, perm, known_at, known_epoch FROM known CROSS JOIN known_from;

-- One row for each session of a topic: a period in which a broker name had it. While it lasts, to_time and ended_by are
-- NULL. ended_by is the cause of the event that ended it, such as SILENCE or DELETE_TOPIC_IN_NAMESRV. deleted_at: time at
-- which a command deleted the topic in all clusters, after its end by expiry or disconnection.
CREATE OR REPLACE TEMPORARY VIEW topic_session AS
WITH point AS (
  SELECT topic, broker_name, event_time, epoch, seq, cause, before IS NULL AS begins
  FROM topic_change
  WHERE (before IS NULL OR after IS NULL) AND epoch > 0 /*lost_epoch*/
  UNION ALL
  SELECT *, CAST(NULL AS BOOLEAN) FROM topic_deletion WHERE epoch > 0 /*lost_epoch*/
  UNION ALL
  SELECT topic, broker_name, known_at, known_epoch, -1, 'KNOWN', true FROM topic_known
), edge AS (
  SELECT topic, broker_name, event_time AS from_time, begins,
         lead(event_time) OVER of_topic AS to_time, lead(cause) OVER of_topic AS ended_by,
         IF(lead(begins, 2) OVER of_topic IS NULL AND lead(cause) OVER of_topic IN ('SILENCE', 'CHANNEL_CLOSED'),
            lead(event_time, 2) OVER of_topic, NULL) AS deleted_at
  FROM point
  WINDOW of_topic AS (PARTITION BY topic, broker_name ORDER BY epoch, seq, begins NULLS LAST)
)
SELECT topic, broker_name, from_time, to_time, ended_by, deleted_at FROM edge WHERE begins;

-- One row for each topic on a broker name that lacks it because it is down: the topic was removed without a command or an
-- unregistration, when a broker of the name went down that has been down since. It is expected on that name until the
-- master is back, because a slave brings no topics. An unregistration counts too if the broker was away by plan, and is not
-- back in time.
CREATE OR REPLACE TEMPORARY VIEW topic_down AS
WITH latest AS (
  SELECT *, lead(topic) OVER (PARTITION BY topic, broker_name ORDER BY from_time, to_time NULLS LAST) IS NULL AS is_last
  FROM topic_session
), fallen AS (
  SELECT broker_name, min(gone_at) AS fell_at, max(IF(ended_by = 'UNREGISTERED', 1, 0)) AS overdue
  FROM broker_down
  GROUP BY broker_name
), master AS (
  SELECT broker_name, max(from_time) AS came_at FROM broker_session WHERE broker_id = 0 GROUP BY broker_name
)
SELECT topic, broker_name, to_time AS gone_at
FROM latest JOIN fallen USING (broker_name) LEFT JOIN master USING (broker_name)
WHERE is_last AND (ended_by IN ('SILENCE', 'CHANNEL_CLOSED') OR ended_by = 'UNREGISTER_BROKER' AND overdue = 1) AND deleted_at IS NULL
  AND fell_at <= to_time AND coalesce(came_at, to_time) <= to_time;

-- One row for each topic that has a route or is expected to have one, with its state:
--
-- - without_route: no broker name has it.
-- - not_writable: no broker name has it with the permission to write and a master, although some has it with the permission
--   or is without a master. (An acting master's topics have lost the permission.)
-- - degraded: producers reach it, but not all of its `broker_names` are up with a master (broker_names_up).
-- - read_only: no broker name has it with the permission to write, and all are up with a master.
-- - writable: all of its broker names are up with a master. is_readable: some broker name has it with the permission.
CREATE OR REPLACE TEMPORARY VIEW topic_state AS
WITH away AS (  -- broker names without a master, because it is in planned absence
  SELECT DISTINCT broker_name, true AS is_excused
  FROM broker_stretch CROSS JOIN known_until ANTI JOIN broker USING (cluster_name, broker_name, broker_id)
  WHERE is_planned AND broker_id = 0 AND back_at IS NULL AND retired_at IS NULL AND to_time + INTERVAL 168 HOURS > known_at
), of_name AS (
  SELECT topic, broker_name, has_master IS NOT NULL AS has_route, has_master, is_readable, is_writable,
         coalesce(has_master, false) OR is_excused IS NULL AS is_expected
  FROM topic_placement LEFT JOIN (SELECT broker_name, has_master FROM broker_name_dim) USING (broker_name)
       LEFT JOIN away USING (broker_name)
  UNION ALL
  SELECT topic, broker_name, false, false, false, false, is_excused IS NULL FROM topic_down LEFT JOIN away USING (broker_name)
), of_topic AS (
  SELECT topic, count(*) FILTER (WHERE is_expected) AS broker_names, count(*) FILTER (WHERE has_master) AS broker_names_up,
         count(*) FILTER (WHERE has_route) AS routes,
         count(*) FILTER (WHERE has_route AND is_readable) > 0 AS is_readable,
         count(*) FILTER (WHERE has_route AND is_writable AND is_expected) AS may_write,
         count(*) FILTER (WHERE is_writable AND has_master) > 0 AS is_writable
  FROM of_name
  GROUP BY topic
)
SELECT topic, CASE WHEN routes = 0 THEN 'without_route'
                   WHEN NOT is_writable AND (may_write > 0 OR broker_names_up < broker_names) THEN 'not_writable'
                   WHEN broker_names_up < broker_names THEN 'degraded'
                   WHEN may_write = 0 THEN 'read_only'
                   ELSE 'writable' END AS state,
       broker_names_up, broker_names, is_readable, is_writable
FROM of_topic;

-- One row for each period in which a topic was expected: up from from_ms to up_until_ms, then not up to expected_until_ms.
-- - measure 'route': up while at least one broker name has the topic.
-- - measure 'write': up while at least one broker name has it with the permission to write, and a master. If broker_name
--   is set: while this one does.
-- After an end by expiry or disconnection on a broker name the topic is expected until it is up again, no broker of
-- that name is down, its master is back without it, or a command deletes it in all clusters. After any other end (a command,
-- an unregistration, a registration without it), also later, it is not expected on that name, and not to be writable after
-- an end by the loss of the permission, or a command that takes it later. It is expected as long as it is on one of its names.
--
-- Each step takes time for its rows, not for pairs of them: what holds at a time is the last row before it, in a window.
CREATE OR REPLACE TEMPORARY VIEW topic_stretch AS
WITH point AS (
  SELECT topic, broker_name, event_time, epoch, seq, cause IN ('SILENCE', 'CHANNEL_CLOSED') AS is_silence, after.perm AS perm,
         after IS NOT NULL AS is_there, cause = 'WIPE_WRITE_PERM_OF_BROKER' AS is_wiped
  FROM topic_change
  WHERE epoch > 0 /*lost_epoch*/
  UNION ALL
  SELECT topic, broker_name, event_time, epoch, seq, false, CAST(NULL AS INT), false, false
  FROM topic_deletion
  WHERE epoch > 0 /*lost_epoch*/
  UNION ALL
  SELECT topic, broker_name, known_at, known_epoch, -1, false, perm, true, false FROM topic_known
), change AS (  -- planned_at: the next planned end, or command after any end, after which it is not expected there.
                -- wiped_at: the next command that takes the permission
  SELECT *, lead(event_time) OVER of_topic AS next_time, lead(is_there) OVER of_topic AS is_kept,
         lead(is_silence) OVER of_topic AS ends_in_silence,
         min(IF(is_there OR is_silence, NULL, event_time)) OVER (PARTITION BY topic, broker_name ORDER BY epoch DESC, seq DESC
                                                                 ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS planned_at,
         min(IF(is_wiped, event_time, NULL)) OVER (PARTITION BY topic, broker_name ORDER BY epoch DESC, seq DESC
                                                   ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS wiped_at
  FROM point
  WINDOW of_topic AS (PARTITION BY topic, broker_name ORDER BY epoch, seq)
), routed AS (
  SELECT topic, broker_name, unix_millis(event_time) AS from_ms, unix_millis(coalesce(next_time, known_at)) AS to_ms,
         unix_millis(known_at) AS known_ms, unix_millis(coalesce(planned_at, known_at)) AS last_ms,
         unix_millis(coalesce(least(planned_at, wiped_at), known_at)) AS writable_ms,
         next_time IS NULL OR NOT is_kept AND ends_in_silence AS is_unplanned, (perm & 2) <> 0 AS may_write
  FROM change CROSS JOIN known_until
  WHERE is_there
), master AS (  -- numbered by broker name
  SELECT broker_name, from_millis AS from_ms, up_until_millis AS to_ms,
         coalesce(ended_by, 'EXPIRED') NOT IN ('UNREGISTERED', 'MOVED', 'ID_LOST', 'REFUSED') AS is_unplanned,
         row_number() OVER (PARTITION BY broker_name ORDER BY from_millis, up_until_millis) AS number
  FROM broker_stretch
  WHERE broker_id = 0
), begun AS (  -- first: the number of the master's session at from_ms
  SELECT *, max(number) OVER (PARTITION BY broker_name ORDER BY from_ms, number NULLS LAST
                              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS first
  FROM (SELECT topic, broker_name, from_ms, to_ms, known_ms, writable_ms AS last_ms, is_unplanned, CAST(NULL AS INT) AS number
        FROM routed WHERE may_write
        UNION ALL SELECT NULL, broker_name, from_ms, NULL, NULL, NULL, NULL, number FROM master) point
), ended AS (  -- last: the number of the master's session before to_ms
  SELECT *, max(number) OVER (PARTITION BY broker_name ORDER BY to_ms, number NULLS FIRST
                              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS last
  FROM (SELECT * FROM begun WHERE number IS NULL
        UNION ALL SELECT NULL, broker_name, NULL, from_ms, NULL, NULL, NULL, number, NULL FROM master) point
), part AS (
  SELECT topic, broker_name, from_ms, to_ms, known_ms, last_ms, is_unplanned,
         explode(sequence(CAST(coalesce(first, 1) AS BIGINT), CAST(last AS BIGINT))) AS number
  FROM ended
  WHERE number IS NULL AND last >= coalesce(first, 1)
), written AS (
  SELECT topic, broker_name, greatest(part.from_ms, master.from_ms) AS from_ms, least(part.to_ms, master.to_ms) AS to_ms,
         known_ms, last_ms,
         part.to_ms <= master.to_ms AND part.is_unplanned OR master.to_ms <= part.to_ms AND master.is_unplanned AS is_unplanned
  FROM part JOIN master USING (broker_name, number)
  WHERE part.from_ms < master.to_ms
), session AS (
  SELECT 'route' AS measure, topic, CAST(NULL AS STRING) AS of_name, broker_name, from_ms, to_ms, known_ms, last_ms,
         is_unplanned
  FROM routed
  UNION ALL
  SELECT 'write', topic, NULL, broker_name, from_ms, to_ms, known_ms, last_ms, is_unplanned FROM written
  UNION ALL
  SELECT 'write', topic, broker_name, broker_name, from_ms, to_ms, known_ms, last_ms, is_unplanned FROM written
), point_of_name AS (  -- kind 1: a broker of the name fell, and is down to end_ms. Kind 3: a master is up
  SELECT broker_name, unix_millis(gone_at) AS to_ms, unix_millis(gone_at) + down_millis AS end_ms,
         CAST(NULL AS BIGINT) AS begin_ms, 1 AS kind
  FROM outage
  UNION ALL
  SELECT broker_name, from_ms, NULL, from_ms, 3 FROM master WHERE from_ms < to_ms
), placed AS (  -- down_ms: the time up to which a broker of the name is down, back_ms: at which a master is up again
  SELECT *,
         max(end_ms) OVER (PARTITION BY measure, broker_name ORDER BY to_ms, kind
                           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS down_ms,
         min(begin_ms) OVER (PARTITION BY measure, broker_name ORDER BY to_ms DESC, kind DESC
                             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS back_ms
  FROM (SELECT *, CAST(NULL AS BIGINT) AS end_ms, CAST(NULL AS BIGINT) AS begin_ms, 2 AS kind FROM session
        UNION ALL
        SELECT measure, NULL, NULL, broker_name, NULL, to_ms, NULL, NULL, NULL, end_ms, begin_ms, kind
        FROM point_of_name CROSS JOIN (SELECT 'route' AS measure UNION ALL SELECT 'write') measures) point
), expected AS (  -- until_ms: the time up to which the topic is expected on the name
  SELECT measure, topic, of_name, broker_name, from_ms, to_ms, known_ms,
         least(IF(is_unplanned AND down_ms >= to_ms, least(down_ms, coalesce(back_ms, down_ms)), to_ms), last_ms,
               coalesce(lead(from_ms) OVER (PARTITION BY measure, topic, of_name, broker_name ORDER BY from_ms, to_ms), known_ms))
           AS until_ms
  FROM placed
  WHERE kind = 2
), beside AS (
  SELECT *, IF(from_ms <= max(to_ms) OVER (PARTITION BY measure, topic, of_name ORDER BY from_ms, to_ms
                                          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0, 1) AS begins
  FROM expected
), numbered AS (
  SELECT *, sum(begins) OVER (PARTITION BY measure, topic, of_name ORDER BY from_ms, to_ms
                              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS number
  FROM beside
), up AS (
  SELECT measure, topic, of_name, min(from_ms) AS from_ms, max(to_ms) AS up_until_ms, max(known_ms) AS known_ms,
         max(until_ms) AS until_ms
  FROM numbered
  GROUP BY measure, topic, of_name, number
)
SELECT measure, topic, of_name AS broker_name, from_ms, up_until_ms, known_ms,
       lead(from_ms) OVER (PARTITION BY measure, topic, of_name ORDER BY from_ms) IS NULL AS is_last,
       least(greatest(up_until_ms, max(until_ms) OVER (PARTITION BY measure, topic, of_name ORDER BY from_ms
                                                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)),
             coalesce(lead(from_ms) OVER (PARTITION BY measure, topic, of_name ORDER BY from_ms), known_ms))
         AS expected_until_ms
FROM up;

-- One row for each time in which a topic was expected and not up: without a route (measure 'route'), or without a way for
-- producers to write to it ('write', broker_name is NULL) or to it on a broker name. until_at: when it was up again, or
-- expected no more, NULL while it lasts. down_millis: its time, or its time so far.
CREATE OR REPLACE TEMPORARY VIEW topic_outage AS
SELECT measure, topic, broker_name, timestamp_millis(up_until_ms) AS gone_at,
       IF(is_last AND expected_until_ms = known_ms, NULL, timestamp_millis(expected_until_ms)) AS until_at,
       expected_until_ms - up_until_ms AS down_millis, is_last AND expected_until_ms = known_ms AS lasts
FROM topic_stretch
WHERE expected_until_ms > up_until_ms;

-- One row for each row of topic_outage, with the event that began it: ended_by is the type of the end of a lease or of a
-- command, or the cause of a change of topics. broker_key: the broker whose lease ended, NULL for a command. requested_by and
-- reason: sender of the command. They are NULL if the history has no such event at that time. A topic on several broker groups
-- has the event on the last of them.
CREATE OR REPLACE TEMPORARY VIEW topic_outage_cause AS
WITH line AS (
  SELECT broker_name, event_time, epoch, seq, IF(type = 'TOPICS_CHANGED', cause, type) AS ended_by,
         IF(type = 'TOPICS_CHANGED', 1, 0) AS follows, requested_by, reason, get_json_object(command, '$.topic') AS of_topic,
         IF(broker_id IS NULL, NULL, concat_ws('/', url_encode(cluster_name), url_encode(broker_name), broker_id)) AS broker_key
  FROM broker_event
  WHERE epoch > 0 /*lost_epoch*/
    AND (type IN ('EXPIRED', 'UNREGISTERED', 'CHANNEL_CLOSED', 'MOVED', 'REFUSED') AND lease_millis IS NOT NULL
         OR type = 'ID_LOST' OR topics_removed > 0 OR topics_changed > 0)
), known AS (
  SELECT DISTINCT topic, broker_name AS of_name FROM topic_session
), found AS (
  SELECT topic_outage.*, ended_by, broker_key, requested_by, reason,
         row_number() OVER (PARTITION BY measure, topic_outage.topic, topic_outage.broker_name, gone_at
                            ORDER BY follows NULLS LAST, epoch, seq, of_name) AS place
  FROM topic_outage
       LEFT JOIN known ON topic_outage.topic = known.topic AND coalesce(topic_outage.broker_name = of_name, true)
       LEFT JOIN line ON of_name = line.broker_name AND gone_at = event_time AND coalesce(of_topic = topic_outage.topic, true)
)
SELECT measure, topic, broker_name, gone_at, until_at, down_millis, lasts, ended_by, broker_key, requested_by, reason
FROM found
WHERE place = 1;

-- One row for each measure, topic and day on which it was expected, for the two views below.
CREATE OR REPLACE TEMPORARY VIEW topic_uptime AS
WITH part AS (
  SELECT *, explode(sequence(CAST(floor(from_ms / 86400000) AS BIGINT),
                             CAST(floor(expected_until_ms / 86400000) AS BIGINT))) AS day_number
  FROM topic_stretch
), of_day AS (
  SELECT measure, topic, broker_name, day_number,
         CAST(sum(greatest(0, least(up_until_ms, (day_number + 1) * 86400000)
                              - greatest(from_ms, day_number * 86400000))) AS BIGINT) AS up_millis,
         CAST(sum(least(expected_until_ms, (day_number + 1) * 86400000)
                  - greatest(from_ms, day_number * 86400000)) AS BIGINT) AS expected_millis
  FROM part
  GROUP BY measure, topic, broker_name, day_number
)
SELECT measure, topic, broker_name, date_from_unix_date(CAST(day_number AS INT)) AS day, up_millis,
       expected_millis, up_millis / expected_millis AS availability
FROM of_day
WHERE expected_millis > 0 AND day_number * 86400000 >= coalesce(unix_millis((SELECT expected_at FROM known_from)), 0);

-- One row for each topic and day on which it was expected: the time in which at least one broker name had it, so that
-- clients got a route, and its expected time.
CREATE OR REPLACE TEMPORARY VIEW topic_availability AS
SELECT topic, day, up_millis, expected_millis, availability FROM topic_uptime WHERE measure = 'route';

-- One row for each topic and day on which it was expected to be writable: the time in which producers could write to it,
-- and its expected time, broker_name is NULL. And one row for each broker name of it, for that broker name only.
CREATE OR REPLACE TEMPORARY VIEW topic_write_availability AS
SELECT topic, broker_name, day, up_millis, expected_millis, availability FROM topic_uptime WHERE measure = 'write';

-- One row for each hour and type of event.
CREATE OR REPLACE TEMPORARY VIEW route_changes AS
SELECT event_month, timestamp_millis(CAST(floor(unix_millis(event_time) / 3600000) AS BIGINT) * 3600000) AS hour, type,
       count(*) AS events, count(DISTINCT broker_name) AS broker_names
FROM broker_event
GROUP BY event_month, hour, type;

-- One row for each operator command and broker name whose topics it changed. A command that changed none has one row.
-- topic_change and row_change have what it changed. mqadmin sends a command to each gateway in namesrvAddr: the same one
-- of the same user and host within a second is left out, unless it changed a row again.
-- topic, namespace and key are those that it names, NULL if it names none.
CREATE OR REPLACE TEMPORARY VIEW operator_command AS
SELECT event_month, event_time, epoch, seq, type AS command, requested_by, reason, broker_name,
       topics_added, topics_changed, topics_removed, get_json_object(command, '$.topic') AS topic,
       get_json_object(command, '$.namespace') AS namespace, get_json_object(command, '$.key') AS key
FROM (
  SELECT broker_event.*, changed.epoch IS NOT NULL AS has_changed, unix_millis(event_time) - lag(unix_millis(event_time)) OVER (
    PARTITION BY type, regexp_replace(requested_by, ':[0-9]+$', ''), replace(command, requested_by, '')
    ORDER BY broker_event.epoch, broker_event.seq
  ) AS since_same_millis
  FROM broker_event LEFT JOIN (SELECT DISTINCT epoch, seq FROM row_change) changed
         ON broker_event.epoch = changed.epoch AND broker_event.seq = changed.seq
  WHERE type IN ('PUT_KV_CONFIG', 'DELETE_KV_CONFIG', 'WIPE_WRITE_PERM_OF_BROKER', 'ADD_WRITE_PERM_OF_BROKER',
                 'DELETE_TOPIC_IN_NAMESRV', 'REGISTER_TOPIC_IN_NAMESRV', 'UPDATE_NAMESRV_CONFIG', 'LIFT_EXPIRY_GUARD',
                 'RETIRE_BROKER', 'IMPORT', 'RESTORE', 'REPAIR')
) AS asked
WHERE command IS NULL OR requested_by IS NULL OR since_same_millis IS NULL OR since_same_millis > 1000 OR has_changed;

-- One row for each rejected record, with its first 200 characters as text.
CREATE OR REPLACE TEMPORARY VIEW rejected_record AS
SELECT event_time, partition, rejected.offset, key, length, reason,
       substring(try_validate_utf8(CAST(value AS STRING)), 1, 200) AS text
FROM rejected;
