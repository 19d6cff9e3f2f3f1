-- Hand out those of the asked questions that have no verdict yet, and count the attempt that begins now.
-- KEYS  1 meta  2 questions  3 todo  4 attempts  5 state  6 aside
-- ARGV  1 suspect_from: a question begun this often already is handed out without counting (0: count all)
--       then question ids
-- Returns false for a purged run, the state of a paused or cancelled one, else a flat list: Question as JSON, attempts
-- so far, 1 if this one was counted.
-- The caller drops the message of a halted run. What it carried is put aside in this same step: whoever lets the run
-- go on finds there what is in no message any more, however close the two come.
-- Counting at the start, not at the end, is what convicts a question that kills its worker.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local state = redis.call('GET', KEYS[5])
if state then
  for i = 2, #ARGV do
    if redis.call('SISMEMBER', KEYS[3], ARGV[i]) == 1 then
      redis.call('SADD', KEYS[6], ARGV[i])
    end
  end
  return state
end
local suspect_from = tonumber(ARGV[1])
local out = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  if redis.call('SISMEMBER', KEYS[3], id) == 1 then
    local attempts = tonumber(redis.call('HGET', KEYS[4], id) or '0')
    local counted = 0
    if suspect_from == 0 or attempts < suspect_from then
      attempts = redis.call('HINCRBY', KEYS[4], id, 1)
      counted = 1
    end
    out[#out + 1] = redis.call('HGET', KEYS[2], id)
    out[#out + 1] = attempts
    out[#out + 1] = counted
  end
end
return out
