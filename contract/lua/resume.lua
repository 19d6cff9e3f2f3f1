-- Resume a paused or cancelled run.
-- KEYS  1 meta  2 state  3 todo  4 open runs
-- ARGV  1 run id
-- Returns false for a purged run, else 1.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
redis.call('DEL', KEYS[2])
if redis.call('SCARD', KEYS[3]) > 0 then
  redis.call('SADD', KEYS[4], ARGV[1])
end
return 1
