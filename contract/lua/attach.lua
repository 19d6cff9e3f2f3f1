-- Store the passages retrieved for questions until these are settled.
-- KEYS  1 meta  2 todo  3 passages  4 lookups
-- ARGV  pairs: question id, its passages as JSON
-- Returns false for a purged run, else how many were stored: a question settled in the meantime needs none.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local kept = 0
for i = 1, #ARGV, 2 do
  if redis.call('SISMEMBER', KEYS[2], ARGV[i]) == 1 then
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1])
    kept = kept + 1
  end
  redis.call('HDEL', KEYS[4], ARGV[i])
end
return kept
