-- Write a run, unless its id is known.
-- KEYS  1 meta  2 runs  3 weights
-- ARGV  1 run id  2 Run as JSON
-- Returns 1 if the run is new, else 0. It is on the list of runs in either case: in this same step, or a purge in between
-- would leave an id there of which nobody could be rid. A new run has no weight: older versions could leave one behind
-- when the run of that id was purged.
-- By Redis' own clock: with that of each host, `last` would be another run where one is slow.
local is_new = redis.call('SET', KEYS[1], ARGV[2], 'NX') and 1 or 0
if is_new == 1 then
  redis.call('HDEL', KEYS[3], ARGV[1])
end
local now = redis.call('TIME')
redis.call('ZADD', KEYS[2], 'NX', string.format('%s.%06d', now[1], now[2]), ARGV[1])
return is_new
