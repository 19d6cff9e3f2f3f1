-- Take an attempt back from each question that has no verdict yet.
-- KEYS  1 meta  2 todo  3 attempts
-- ARGV  question ids, each once
-- Returns false for a purged run, else 1.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
for _, id in ipairs(ARGV) do
  if redis.call('SISMEMBER', KEYS[2], id) == 1 and tonumber(redis.call('HGET', KEYS[3], id) or '0') > 0 then
    redis.call('HINCRBY', KEYS[3], id, -1)
  end
end
return 1
