-- Settle questions: first write wins, and the counters move in the same step.
-- KEYS  1 meta  2 questions  3 verdicts  4 todo  5 counts  6 attempts  7 open runs  8 passages  9 lookups
--       10 troubles
-- ARGV  1 run id, then triples: question id, Verdict as JSON, outcome
-- Returns false for a purged run, else {newly settled, still unsettled}.
-- A verdict of a question that the run does not have is dropped: the run was purged and is being written anew.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local new = 0
local ended = {}
local settled = {}
for i = 2, #ARGV, 3 do
  if redis.call('HEXISTS', KEYS[2], ARGV[i]) == 1 then
    if redis.call('HSETNX', KEYS[3], ARGV[i], ARGV[i + 1]) == 1 then
      ended[ARGV[i + 2]] = (ended[ARGV[i + 2]] or 0) + 1
      new = new + 1
    end
    settled[#settled + 1] = ARGV[i]
  end
end
for outcome, count in pairs(ended) do
  redis.call('HINCRBY', KEYS[5], outcome, count)
end
for first = 1, #settled, 1000 do  -- Lua hands over some 8,000 arguments at most
  local ids = {unpack(settled, first, math.min(first + 999, #settled))}
  redis.call('SREM', KEYS[4], unpack(ids))
  for _, book in ipairs({KEYS[6], KEYS[8], KEYS[9], KEYS[10]}) do
    redis.call('HDEL', book, unpack(ids))
  end
end
local left = redis.call('SCARD', KEYS[4])
if left == 0 then
  redis.call('SREM', KEYS[7], ARGV[1])
end
return {new, left}
