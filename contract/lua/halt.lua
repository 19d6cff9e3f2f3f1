-- Pause or cancel a run: from now on none of its questions are begun.
-- KEYS  1 meta  2 state  3 open runs  4 aside
-- ARGV  1 run id  2 `paused` or `cancelled`
-- Returns false for a purged run, else its state from now on. A cancelled run stays cancelled.
-- What is aside while the run is not halted was left there by a resume that was broken off. Since then it may have been
-- sent, as it was in no message; the next resume must not send it once more.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
redis.call('SREM', KEYS[3], ARGV[1])
local state = redis.call('GET', KEYS[2])
if state == 'cancelled' then
  return 'cancelled'
end
if not state then
  redis.call('DEL', KEYS[4])
end
redis.call('SET', KEYS[2], ARGV[2])
return ARGV[2]
