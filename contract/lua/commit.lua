-- Settle questions: the first write wins, and the counters are updated in the same step.
-- KEYS  1 meta  2 verdicts  3 todo  4 counts  5 attempts  6 open runs  7 passages  8 lookups
--       9 troubles  10 engines
-- ARGV  1 run id  2 field of the engine that answered (engine.lua); empty: none did  3 EngineUsed as JSON, then triples:
--       question id, Verdict as JSON, outcome
-- Returns false for a purged run, else the positions, from 0, of the verdicts that were ignored: normally none, so
-- that the reply does not grow with the batch. A verdict that is in the ledger already is not ignored: a client that got
-- no answer repeats its call, and Redis may execute both.
-- In all scripts of this folder, a question in `todo` has no verdict. One that is not there has a verdict, or does not
-- belong to this run (which was purged and is being written again).
-- A thousand questions per command: Lua passes about 8,000 arguments at most.
local STEP = 1000

local ignored = {}

local function settle(before, ids, verdicts, outcomes)
  local settled, written, seen, ended = {}, {}, {}, {}
  for place, is_open in ipairs(redis.call('SMISMEMBER', KEYS[3], unpack(ids))) do
    local id, outcome = ids[place], outcomes[place]
    local stands = is_open == 1 or redis.call('HGET', KEYS[2], id) == verdicts[place]
    if not stands or seen[id] then
      ignored[#ignored + 1] = before + place - 1
    elseif is_open == 1 then
      settled[#settled + 1] = id
      written[#written + 1] = id
      written[#written + 1] = verdicts[place]
      ended[outcome] = (ended[outcome] or 0) + 1
    end
    seen[id] = seen[id] or stands
  end
  if #settled > 0 then
    redis.call('HSET', KEYS[2], unpack(written))
    redis.call('SREM', KEYS[3], unpack(settled))
    for _, book in ipairs({KEYS[5], KEYS[7], KEYS[8], KEYS[9]}) do
      redis.call('HDEL', book, unpack(settled))
    end
  end
  for outcome, count in pairs(ended) do
    redis.call('HINCRBY', KEYS[4], outcome, count)
  end
end

if redis.call('EXISTS', KEYS[1]) == 0 then
  return false
end
-- Before all others, as it is refused if the engines are damaged.
if ARGV[2] ~= '' then
  redis.call('HSETNX', KEYS[10], ARGV[2], ARGV[3])
end
for first = 4, #ARGV, 3 * STEP do
  local ids, verdicts, outcomes = {}, {}, {}
  for i = first, math.min(first + 3 * STEP - 1, #ARGV), 3 do
    ids[#ids + 1], verdicts[#verdicts + 1], outcomes[#outcomes + 1] = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  end
  settle((first - 4) / 3, ids, verdicts, outcomes)
end
if redis.call('SCARD', KEYS[3]) == 0 then
  redis.call('SREM', KEYS[6], ARGV[1])
end
return ignored
