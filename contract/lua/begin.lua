-- Hand out the requested questions that have no verdict yet, and count an attempt for each.
-- KEYS  1 meta  2 questions  3 todo  4 attempts  5 state  6 aside
-- ARGV  1 this call, in hexadecimal digits
--       2 count only for questions with fewer attempts than this so far; empty: for all
--       then question ids, each once
-- Returns false for a purged run, the state of a paused or cancelled one, else a flat list: Question as JSON, attempts
-- so far, 1 if this one was counted.
-- The caller drops the message of a halted run. Its questions are put aside in this same atomic step, so that a
-- concurrent resume finds all questions that are in no message any more.
-- Attempts are counted at the start, not at the end, so that a question that kills its worker is identified. They are
-- kept with the last call that changed them, because a client that got no answer repeats its call, and Redis may execute
-- both. Only one worker at a time holds a question, so that normally no other call comes between the two.
-- A thousand questions per command: Lua passes about 8,000 arguments at most.
local STEP = 1000

local function unsettled(ids)
  local found = {}
  for place, is_open in ipairs(redis.call('SMISMEMBER', KEYS[3], unpack(ids))) do
    if is_open == 1 then
      found[#found + 1] = ids[place]
    end
  end
  return found
end

local function hand_out(ids, call, count_below, out)
  local bodies = redis.call('HMGET', KEYS[2], unpack(ids))
  local begun = redis.call('HMGET', KEYS[4], unpack(ids))
  local counts = {}
  for place, id in ipairs(ids) do
    local before, changed_by = string.match(begun[place] or '0', '^(%d+) ?(%x*)$')
    local attempts, counted = tonumber(before), changed_by == call and 1 or 0
    if counted == 0 and attempts < count_below then
      attempts, counted = attempts + 1, 1
      counts[#counts + 1] = id
      counts[#counts + 1] = attempts .. ' ' .. call
    end
    out[#out + 1] = bodies[place]
    out[#out + 1] = attempts
    out[#out + 1] = counted
  end
  if #counts > 0 then
    redis.call('HSET', KEYS[4], unpack(counts))
  end
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
local state = redis.call('GET', KEYS[5])
local out = {}
for first = 3, #ARGV, STEP do
  local ids = unsettled({unpack(ARGV, first, math.min(first + STEP - 1, #ARGV))})
  if #ids > 0 and state then
    redis.call('SADD', KEYS[6], unpack(ids))
  elseif #ids > 0 then
    hand_out(ids, ARGV[1], tonumber(ARGV[2]) or math.huge, out)
  end
end
return state or out
