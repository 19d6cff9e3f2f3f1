-- Remove failed verdicts: their questions are unsettled again, with no attempts.
-- KEYS  1 meta  2 state  3 verdicts  4 todo  5 counts  6 attempts  7 open runs  8 engines
-- ARGV  1 this call, in hexadecimal digits  2 run id  3 its number of questions, then pairs: question id, its failed
--       Verdict as it was read
-- Returns false for a purged run, the state of a paused or cancelled one that is not finished, else the questions whose
-- verdicts were removed.
-- A verdict that differs from the one read is left alone: another process reopened the question, and it has been settled
-- again.
-- The call is kept with the attempts, because a client may repeat it (begin.lua).
-- Engines of which no verdict is left have not answered the run.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local state = redis.call('GET', KEYS[2])
if state and (redis.call('SCARD', KEYS[4]) > 0 or redis.call('HLEN', KEYS[3]) < tonumber(ARGV[3])) then
  return state
end
local reopened, none_yet = {}, '0 ' .. ARGV[1]
for i = 4, #ARGV, 2 do
  if redis.call('HGET', KEYS[3], ARGV[i]) == ARGV[i + 1] then
    redis.call('HDEL', KEYS[3], ARGV[i])
    redis.call('HINCRBY', KEYS[5], 'failed', -1)
    redis.call('SADD', KEYS[4], ARGV[i])
    redis.call('HSET', KEYS[6], ARGV[i], none_yet)
    reopened[#reopened + 1] = ARGV[i]
  elseif redis.call('HGET', KEYS[6], ARGV[i]) == none_yet then
    reopened[#reopened + 1] = ARGV[i]
  end
end
if #reopened > 0 then
  -- The run was halted but finished with what was in flight then: the halt no longer applies to anything.
  redis.call('DEL', KEYS[2])
  redis.call('SADD', KEYS[7], ARGV[2])
  if redis.call('HLEN', KEYS[3]) == 0 then
    redis.call('DEL', KEYS[8])
  end
end
return reopened
