-- Take an attempt back from each question that has no verdict yet.
-- KEYS  1 meta  2 todo  3 attempts
-- ARGV  question ids, each once
-- Returns false for a purged run, else 1.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
for _, id in ipairs(ARGV) do
  local attempts = tonumber(string.match(redis.call('HGET', KEYS[3], id) or '0', '^%d+'))
  if redis.call('SISMEMBER', KEYS[2], id) == 1 and attempts > 0 then
    redis.call('HSET', KEYS[3], id, attempts - 1)
  end
end
return 1
