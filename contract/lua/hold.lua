-- Take or renew a worker's name, unless another worker has it.
-- KEYS  1 record  2 names of workers  3 last heartbeats
-- ARGV  1 name  2 owner  3 WorkerRecord as JSON  4 lease in seconds  5 owner that is known to be dead, or empty
-- Returns 1, or 0 if another worker has the name.
local there = redis.call('GET', KEYS[1])
if there then
  local owner = cjson.decode(there)['owner']
  if owner ~= ARGV[2] and owner ~= ARGV[5] then
    return 0
  end
end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[3], 'EX', ARGV[4])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
return 1
