-- Take messages off a queue and onto a worker's books in one step: none can be lost in between.
-- KEYS  1 held messages  2 their times  then the queue's lists, most urgent first
-- ARGV  1 how many at most  2 now, in seconds since the epoch
-- Returns a flat list: place of the list among the lists (from 1), message as the producer wrote it.
-- The books are kombu's (kombu/transport/redis.py, QoS.append): delivery tag → [message, exchange, routing key].
local out = {}
local left = tonumber(ARGV[1])
for i = 3, #KEYS do
  local messages = left > 0 and redis.call('RPOP', KEYS[i], left) or {}
  for _, message in ipairs(messages) do
    local properties = cjson.decode(message)['properties']
    local where = properties['delivery_info']
    local entry = '[' .. message .. ',' .. cjson.encode(where['exchange']) .. ',' .. cjson.encode(where['routing_key']) .. ']'
    redis.call('HSET', KEYS[1], properties['delivery_tag'], entry)
    redis.call('ZADD', KEYS[2], ARGV[2], properties['delivery_tag'])
    out[#out + 1] = i - 2
    out[#out + 1] = message
    left = left - 1
  end
end
return out
