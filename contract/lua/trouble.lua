-- Record why an attempt at each question failed, until it is settled.
-- KEYS  1 meta  2 todo  3 troubles
-- ARGV  1 this call, in hexadecimal digits  2 reason, then question ids
-- Returns false for a purged run, else how many reasons each question has now; 0 if it is settled already.
-- The call that recorded the last reason is kept before them, because a client may repeat it (begin.lua).
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local call, reason = ARGV[1], ARGV[2]
local known = {}
for i = 3, #ARGV do
  local reasons = {}
  if redis.call('SISMEMBER', KEYS[2], ARGV[i]) == 1 then
    local noted_by, noted = string.match(redis.call('HGET', KEYS[3], ARGV[i]) or '[]', '^(%x*) ?(.*)$')
    reasons = cjson.decode(noted)
    if noted_by ~= call then
      reasons[#reasons + 1] = reason
      redis.call('HSET', KEYS[3], ARGV[i], call .. ' ' .. cjson.encode(reasons))
    end
  end
  known[#known + 1] = #reasons
end
return known
