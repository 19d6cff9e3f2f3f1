-- Reorder the messages at the head of a broker list so that the runs share it fairly.
-- KEYS  1 list; its head, from which messages are taken, is its right end  2 open runs  3 weights
-- ARGV  1 messages to skip  2 messages to look at
--       3 how many of these stay in front, the rest moving to the list's far end; 0: change nothing
--       4 … runs that are put off: but for their first message here, which is a trial, they go to the end
-- Returns the open runs that have messages in this part, without those put off.
-- Each message is stamped with the number of questions of its run before it, divided by the run's weight; the smallest
-- stamp goes first (stride scheduling). Messages of runs that are not open go to the end: they will be dropped.
-- Malformed messages go first, so that they are removed soon.
-- A call that a client repeats, because it got no answer, may move messages to the end that were in turn; none is lost,
-- and the next pass reorders them.
-- After messages are taken off an ordered list, the rest is still in order except for one message per run. So a list is
-- left alone unless a message deviates by more than that: otherwise each call would restart the count, in favour of the
-- runs with small weights.
local last = -1 - tonumber(ARGV[1])
local messages = redis.call('LRANGE', KEYS[1], last + 1 - tonumber(ARGV[2]), last)
local in_front = math.min(tonumber(ARGV[3]), #messages)
local weights, before, runs, put_off = {}, {}, {}, {}
for place = 4, #ARGV do
  put_off[ARGV[place]] = true
end
local tolerance = 0

local function stamp(message)
  local _, start = string.find(message, '"argsrepr": "', 1, true)
  local run, questions = string.match(message, '^([^"]*): (%d+) questions?"', (start or #message) + 1)
  if not run then
    return -1
  end
  if weights[run] == nil then
    weights[run] = redis.call('SISMEMBER', KEYS[2], run) == 1 and (tonumber(redis.call('HGET', KEYS[3], run)) or 1)
    before[run] = 0
    if weights[run] and not put_off[run] then
      runs[#runs + 1] = run
    end
  end
  if not weights[run] or (put_off[run] and before[run] > 0) then
    return math.huge
  end
  local cost, mine = questions / weights[run], before[run]
  before[run] = mine + cost
  tolerance = math.max(tolerance, cost)
  return mine
end

local stamps, order = {}, {}
for place = 1, #messages do
  stamps[place] = stamp(messages[#messages + 1 - place])
  order[place] = place
end
local level, largest = in_front == #messages, 0
for place = 1, #messages do
  level = level and not (largest - stamps[place] > tolerance)
  largest = math.max(largest, stamps[place])
end
if level or in_front == 0 then
  return runs
end

table.sort(order, function(one, other)
  return stamps[one] < stamps[other] or (stamps[one] == stamps[other] and one < other)
end)
local front, behind = {}, {}
for place = in_front, 1, -1 do
  front[#front + 1] = messages[#messages + 1 - order[place]]
end
for place = in_front + 1, #order do
  behind[#behind + 1] = messages[#messages + 1 - order[place]]
end
redis.call('LTRIM', KEYS[1], 0, -1 - #messages)
for first = 1, #front, 1000 do  -- Lua passes about 8,000 arguments at most
  redis.call('RPUSH', KEYS[1], unpack(front, first, math.min(first + 999, #front)))
end
for first = 1, #behind, 1000 do
  redis.call('LPUSH', KEYS[1], unpack(behind, first, math.min(first + 999, #behind)))
end
return runs
