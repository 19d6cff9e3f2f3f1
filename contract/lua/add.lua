-- Write question bodies of one run, skipping known ones.
-- KEYS  1 meta  2 questions  3 order  4 todo  5 open runs  6 state
-- ARGV  1 run id, then pairs: question id, Question as JSON; some hundreds of them, as Lua passes about 8,000 arguments
--       at most
-- Returns false for a purged run, else 1. It is idempotent: after a crash, the producer simply starts over.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local new = {}
for i = 2, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[2], ARGV[i], ARGV[i + 1]) == 1 then
    new[#new + 1] = ARGV[i]
  end
end
if #new == 0 then
  return 1
end
redis.call('RPUSH', KEYS[3], unpack(new))
redis.call('SADD', KEYS[4], unpack(new))
if redis.call('EXISTS', KEYS[6]) == 0 then
  redis.call('SADD', KEYS[5], ARGV[1])
end
return 1
