-- Store the passages retrieved for questions until these are settled.
-- KEYS  1 meta  2 todo  3 passages  4 lookups  5 troubles
-- ARGV  pairs: question id, its passages as JSON
-- Returns false for a purged run, else 1. A question settled in the meantime needs no passages. The attempts to find
-- them have succeeded; why some failed must not count among the attempts at scoring.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
for i = 1, #ARGV, 2 do
  if redis.call('SISMEMBER', KEYS[2], ARGV[i]) == 1 then
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
  end
  redis.call('HDEL', KEYS[4], ARGV[i])
  redis.call('HDEL', KEYS[5], ARGV[i])
end
return 1
