-- What analysts ask of the history, as temporary views over the tables of one snapshot.
--
-- In Python register_views(spark, root) makes them. For a plain spark-sql:
--     namesrv-stream snapshots --sql > registry.sql && spark-sql -i registry.sql
--
-- A broker here is (cluster_name, broker_name, broker_id): it stays the same one when its address changes.
-- broker_event is partitioned by event_month ('2026-11'): a condition on it, where a view has it, spares the other
-- months, and file statistics do the same for a condition on event_time. A condition on a session's to_time does so too.

-- One row a stretch of time in which a broker was in the routes. to_time and ended_by are NULL while it lasts.
--
-- Where one address held the id from the beginning of its lease to its end, the line of the end tells the session, and
-- `live` tells the one that lasts. Only brokers whose id has ever passed between living addresses (a promotion, a new
-- address) have their lines followed one by one, the inner steps in one order, so that all windows cost one sort.
CREATE OR REPLACE TEMPORARY VIEW broker_session AS
WITH handed_over AS (
  SELECT DISTINCT cluster_name, broker_name, broker_id FROM broker_event WHERE type IN ('ID_TAKEN', 'ID_LOST')
), line AS (
  SELECT /*+ BROADCAST(handed_over) */
         cluster_name, broker_name, broker_id, broker_addr, epoch, seq, event_time, type, last_heard_at,
         type IN ('REGISTERED', 'ID_TAKEN') AS begins
  FROM broker_event LEFT SEMI JOIN handed_over USING (cluster_name, broker_name, broker_id)
  WHERE type IN ('REGISTERED', 'ID_TAKEN', 'ID_LOST') OR lease_millis IS NOT NULL
), followed AS (
  SELECT *, last_value(IF(begins, broker_addr, NULL)) IGNORE NULLS OVER of_broker AS holder
  FROM line
  WINDOW of_broker AS (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq)
), of_holder AS (  -- what befalls an address that had lost the id before is not the broker's
  SELECT *,
         lag(begins) OVER of_broker AS began_before,
         type = 'ID_LOST' AND lead(begins) OVER of_broker AND lead(event_time) OVER of_broker = event_time AS hands_over,
         lag(type) OVER of_broker = 'ID_LOST' AND lag(event_time) OVER of_broker = event_time AS takes_over
  FROM followed
  WHERE begins OR holder = broker_addr
  WINDOW of_broker AS (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq)
), edge AS (
  SELECT *,
         lead(event_time) OVER of_broker AS next_time,
         lead(type) OVER of_broker AS next_type,
         lead(last_heard_at) OVER of_broker AS next_last_heard_at,
         lead(broker_addr) OVER of_broker AS next_addr
  FROM of_holder
  WHERE IF(begins, NOT coalesce(takes_over, false), coalesce(began_before, false) AND NOT coalesce(hands_over, false))
  WINDOW of_broker AS (PARTITION BY cluster_name, broker_name, broker_id ORDER BY epoch, seq)
), session AS (
  SELECT cluster_name, broker_name, broker_id, broker_addr AS first_addr, next_addr AS last_addr,
         event_time AS from_time, next_time AS to_time, next_type AS ended_by, next_last_heard_at AS last_heard_at
  FROM edge
  WHERE begins
  UNION ALL
  SELECT /*+ BROADCAST(handed_over) */
         cluster_name, broker_name, broker_id, broker_addr, broker_addr,
         timestamp_millis(unix_millis(event_time) - lease_millis), event_time, type, last_heard_at
  FROM broker_event LEFT ANTI JOIN handed_over USING (cluster_name, broker_name, broker_id)
  WHERE lease_millis IS NOT NULL
  UNION ALL
  SELECT cluster_name, broker_name, broker_id, broker_addr, NULL, lease_began_at, NULL, NULL, NULL
  FROM broker JOIN (SELECT broker_addr, lease_began_at FROM live) USING (broker_addr)
       LEFT ANTI JOIN handed_over USING (cluster_name, broker_name, broker_id)
)
SELECT *, unix_millis(coalesce(to_time, (SELECT max(event_time) FROM snapshot))) - unix_millis(from_time)
            AS session_millis
FROM session;

-- One row a broker and day (UTC) from its first registration on: how long it was in the routes, and for how long it
-- should have been. A broker that unregistered or moved and has not come back was not expected any more.
CREATE OR REPLACE TEMPORARY VIEW broker_availability AS
WITH stretch AS (
  SELECT cluster_name, broker_name, broker_id, from_time, coalesce(to_time, now.at) AS up_until,
         IF(ended_by IN ('UNREGISTERED', 'MOVED', 'ID_LOST'), to_time, now.at) AS expected_until
  FROM broker_session CROSS JOIN (SELECT max(event_time) AS at FROM snapshot) AS now
), day_up AS (  -- days on which it was up at least once
  SELECT cluster_name, broker_name, broker_id, day,
         sum(unix_millis(least(up_until, timestamp(day + 1))) - unix_millis(greatest(from_time, timestamp(day))))
           AS up_millis,
         min(from_time) AS first_from_time,
         max_by(expected_until, from_time) AS expected_until
  FROM stretch LATERAL VIEW explode(  -- most stretches lie within a day, and a sequence takes its time
    IF(to_date(from_time) = to_date(up_until), array(to_date(from_time)), sequence(to_date(from_time), to_date(up_until)))
  ) AS day
  GROUP BY cluster_name, broker_name, broker_id, day
), known AS (  -- and the days after each, until it was up again
  SELECT *,
         IF(lag(day) OVER of_broker IS NULL, first_from_time, timestamp(day)) AS known_from,
         coalesce(timestamp(lead(day) OVER of_broker), expected_until) AS known_until
  FROM day_up
  WINDOW of_broker AS (PARTITION BY cluster_name, broker_name, broker_id ORDER BY day)
), each_day AS (
  SELECT cluster_name, broker_name, broker_id, known_day AS day, IF(known_day = day, up_millis, 0) AS up_millis,
         unix_millis(least(known_until, timestamp(known_day + 1)))
           - unix_millis(greatest(known_from, timestamp(known_day))) AS known_millis
  FROM known LATERAL VIEW explode(sequence(day, to_date(known_until))) AS known_day
)
SELECT cluster_name, broker_name, broker_id, day, up_millis, known_millis, up_millis / known_millis AS availability
FROM each_day
WHERE known_millis > 0;

-- One row a cluster and day: over all its brokers, and of its worst one.
CREATE OR REPLACE TEMPORARY VIEW cluster_availability AS
SELECT cluster_name, day,
       count(*) AS brokers,
       sum(up_millis) / sum(known_millis) AS availability,
       min(availability) AS worst_availability,
       min_by(concat(broker_name, ' ', broker_id), availability) AS worst_broker
FROM broker_availability
GROUP BY cluster_name, day;

-- One row a broker and month in which it fell out unplanned. A flap is one after which it was back within 10 minutes.
-- flap_rank 1 has flapped most in that month.
CREATE OR REPLACE TEMPORARY VIEW broker_flapping AS
WITH fallen AS (
  SELECT *, lead(from_time) OVER (PARTITION BY cluster_name, broker_name, broker_id ORDER BY from_time) AS back_at
  FROM broker_session
), counted AS (
  SELECT trunc(to_time, 'MONTH') AS month, cluster_name, broker_name, broker_id,
         count(*) AS unplanned_ends,
         count_if(back_at <= to_time + INTERVAL 10 MINUTES) AS flaps,
         min(session_millis) AS shortest_session_millis
  FROM fallen
  WHERE ended_by IN ('EXPIRED', 'CHANNEL_CLOSED')
  GROUP BY ALL
)
SELECT rank() OVER (PARTITION BY month ORDER BY flaps DESC, unplanned_ends DESC) AS flap_rank,
       date_format(month, 'yyyy-MM') AS month, cluster_name, broker_name, broker_id, unplanned_ends, flaps,
       shortest_session_millis
FROM counted;

-- One row an expired lease: how long after the last sign of life it left the routes.
CREATE OR REPLACE TEMPORARY VIEW time_to_expiry AS
SELECT event_month, event_time, epoch, cluster_name, broker_name, broker_id, broker_addr, last_heard_at,
       unix_millis(event_time) - unix_millis(last_heard_at) AS expiry_millis, lease_millis
FROM broker_event
WHERE type = 'EXPIRED';

-- One row a topic that a single broker name has: without it the topic is gone.
CREATE OR REPLACE TEMPORARY VIEW topic_with_one_broker AS
SELECT topic, min(broker_name) AS broker_name, min(write_queue_nums) AS write_queue_nums
FROM topic
GROUP BY topic
HAVING count(*) = 1;

-- One row a broker name: its zone, as its latest registration says (D6), and what it carries of the topics.
CREATE OR REPLACE TEMPORARY VIEW topic_spread AS
WITH latest AS (
  SELECT broker_name, max_by(cluster_name, registered_at) AS cluster_name, max_by(zone_name, registered_at) AS zone_name
  FROM broker
  GROUP BY broker_name
)
SELECT cluster_name, zone_name, broker_name,
       count(topic) AS topics,
       sum(write_queue_nums) AS write_queues,
       sum(read_queue_nums) AS read_queues,
       count_if(perm & 2 = 0) AS topics_not_writable
FROM latest LEFT JOIN topic USING (broker_name)
GROUP BY cluster_name, zone_name, broker_name;

-- One row an hour and kind of event.
CREATE OR REPLACE TEMPORARY VIEW route_changes AS
SELECT event_month, date_trunc('HOUR', event_time) AS hour, type, count(*) AS events,
       count(DISTINCT broker_name) AS broker_names
FROM broker_event
GROUP BY event_month, hour, type;

-- One row an operator command and broker name that it touched.
CREATE OR REPLACE TEMPORARY VIEW operator_command AS
SELECT event_month, event_time, epoch, type AS command, requested_by, broker_name, before, after
FROM broker_event
WHERE type IN ('PUT_KV_CONFIG', 'DELETE_KV_CONFIG', 'WIPE_WRITE_PERM_OF_BROKER', 'ADD_WRITE_PERM_OF_BROKER',
               'DELETE_TOPIC_IN_NAMESRV', 'REGISTER_TOPIC_IN_NAMESRV', 'UPDATE_NAMESRV_CONFIG');

-- One row a record outside the contract, its first 200 bytes as text.
CREATE OR REPLACE TEMPORARY VIEW rejected_record AS
SELECT event_time, partition, offset, key, length, reason, try_validate_utf8(CAST(substring(value, 1, 200) AS STRING)) AS text
FROM rejected;
