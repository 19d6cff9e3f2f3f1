-- Record why an attempt at each question failed, until it is settled.
-- KEYS  1 meta  2 todo  3 troubles
-- ARGV  1 reason, then question ids
-- Returns false for a purged run, else how many reasons each question has now; 0 if it is settled already.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local known = {}
for i = 2, #ARGV do
  local reasons = {}
  if redis.call('SISMEMBER', KEYS[2], ARGV[i]) == 1 then
    reasons = cjson.decode(redis.call('HGET', KEYS[3], ARGV[i]) or '[]')
    reasons[#reasons + 1] = ARGV[1]
    redis.call('HSET', KEYS[3], ARGV[i], cjson.encode(reasons))
  end
  known[#known + 1] = #reasons
end
return known
