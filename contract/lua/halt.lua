-- Pause or cancel a run: from now on none of its questions are begun.
-- KEYS  1 meta  2 state  3 open runs
-- ARGV  1 run id  2 `paused` or `cancelled`
-- Returns false for a purged run, else its state from now on. A cancelled run stays cancelled.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
redis.call('SREM', KEYS[3], ARGV[1])
if redis.call('GET', KEYS[2]) == 'cancelled' then
  return 'cancelled'
end
redis.call('SET', KEYS[2], ARGV[2])
return ARGV[2]
