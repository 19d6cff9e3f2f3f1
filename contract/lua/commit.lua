-- Settle questions: first write wins, and the counters move in the same step.
-- KEYS  1 meta  2 verdicts  3 todo  4 counts  5 attempts  6 open runs
-- ARGV  1 run id, then triples: question id, Verdict as JSON, outcome
-- Returns false for a purged run, else {newly settled, still unsettled}.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local new = 0
for i = 2, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1]) == 1 then
    redis.call('SREM', KEYS[3], ARGV[i])
    redis.call('HINCRBY', KEYS[4], ARGV[i + 2], 1)
    redis.call('HDEL', KEYS[5], ARGV[i])
    new = new + 1
  end
end
local left = redis.call('SCARD', KEYS[3])
if left == 0 then
  redis.call('SREM', KEYS[6], ARGV[1])
end
return {new, left}
