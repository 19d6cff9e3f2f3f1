-- Write question bodies of one run, each once.
-- KEYS  1 questions  2 order  3 todo  4 open runs
-- ARGV  1 run id, then pairs: question id, Question as JSON
-- Returns how many were new. Repeating it changes nothing: a killed producer simply starts over.
local new = 0
for i = 2, #ARGV, 2 do
  if redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1]) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[i])
    redis.call('SADD', KEYS[3], ARGV[i])
    new = new + 1
  end
end
if new > 0 then
  redis.call('SADD', KEYS[4], ARGV[1])
end
return new
