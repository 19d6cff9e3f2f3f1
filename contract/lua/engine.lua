-- Record which engines answer questions of a run, once per worker and engine.
-- KEYS  1 meta  2 engines
-- ARGV  1 field: worker and digest of its engine's description, 2 EngineUsed as JSON
-- Returns false for a purged run, else 1 if it is recorded now, 0 if it was already.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
return redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
