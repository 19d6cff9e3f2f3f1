-- Release a worker's name, unless another worker has it by now.
-- KEYS  1 record, and what else goes with it
-- ARGV  1 owner
-- Returns 1, or 0 if another worker has the name.
local there = redis.call('GET', KEYS[1])
if there and cjson.decode(there)['owner'] ~= ARGV[1] then
  return 0
end
redis.call('DEL', unpack(KEYS))
return 1
