-- Take an attempt back from each question that has no verdict yet.
-- KEYS  1 meta  2 attempts, which only questions without a verdict have
-- ARGV  1 this call, in hexadecimal digits, then question ids, each once
-- Returns false for a purged run, else 1.
-- The call is kept with the attempts, because a client may repeat it (begin.lua).
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local call = ARGV[1]
for i = 2, #ARGV do
  local before, changed_by = string.match(redis.call('HGET', KEYS[2], ARGV[i]) or '0', '^(%d+) ?(%x*)$')
  local attempts = tonumber(before)
  if changed_by ~= call and attempts > 0 then
    redis.call('HSET', KEYS[2], ARGV[i], attempts - 1 .. ' ' .. call)
  end
end
return 1
