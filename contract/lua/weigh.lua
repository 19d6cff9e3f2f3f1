-- Give a run this many turns where others get one.
-- KEYS  1 meta  2 weights
-- ARGV  1 run id  2 turns
-- Returns false for a purged run, else 1. In one step: a weight written after a purge would stay for ever.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
if ARGV[2] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
return 1
