-- Move messages from a queue to a worker's unacked keys in one step, so that none can be lost in between.
-- KEYS  1 held messages  2 their times  then the queue's lists, most urgent first
-- ARGV  1 now, in seconds since the epoch  then for each list the total number of messages that may be taken up to it
-- Returns how many messages are left on the lists, then a flat list: position of the list among the lists (from 1),
-- delivery tag, message as the producer wrote it. Malformed messages are taken as well; they have position 0 and an
-- empty tag, and are not recorded in the unacked keys.
-- The format is kombu's (kombu/transport/redis.py, QoS.append): delivery tag → [message, exchange, routing key].
local function tag_and_entry(message)
  -- kombu writes ASCII. Anything else may be valid JSON for Lua but not for Python.
  local readable, decoded = pcall(cjson.decode, message)
  if not readable or type(decoded) ~= 'table' or string.find(message, '[\128-\255]') then
    return nil
  end
  local properties = decoded['properties']
  local where = type(properties) == 'table' and properties['delivery_info']
  if type(where) ~= 'table' or type(properties['delivery_tag']) ~= 'string' then
    return nil
  end
  local exchange, key = where['exchange'], where['routing_key']
  if type(exchange) ~= 'string' or type(key) ~= 'string' then
    return nil
  end
  return properties['delivery_tag'], '[' .. message .. ',' .. cjson.encode(exchange) .. ',' .. cjson.encode(key) .. ']'
end

local out = {0}
local taken = 0
for i = 3, #KEYS do
  local left = tonumber(ARGV[i - 1]) - taken
  local messages = left > 0 and redis.call('RPOP', KEYS[i], left) or {}
  for _, message in ipairs(messages) do
    local tag, entry = tag_and_entry(message)
    if tag then
      redis.call('HSET', KEYS[1], tag, entry)
      redis.call('ZADD', KEYS[2], ARGV[1], tag)
    end
    out[#out + 1] = tag and i - 2 or 0
    out[#out + 1] = tag or ''
    out[#out + 1] = message
    taken = taken + 1
  end
  out[1] = out[1] + redis.call('LLEN', KEYS[i])
end
return out
