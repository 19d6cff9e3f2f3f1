-- Let a paused or cancelled run go on.
-- KEYS  1 meta  2 state  3 todo  4 open runs
-- ARGV  1 run id
-- Returns false for a purged run, else the state it was in, empty if it went on already.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local was = redis.call('GET', KEYS[2]) or ''
redis.call('DEL', KEYS[2])
if redis.call('SCARD', KEYS[3]) > 0 then
  redis.call('SADD', KEYS[4], ARGV[1])
end
return was
