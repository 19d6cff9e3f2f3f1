-- Delete the lists of a queue, unless messages came or went since they were looked at.
-- KEYS  the queue's lists
-- ARGV  for each list its number of messages and the newest one, which is at its left end; empty if there is none
-- Returns 1, or 0 if nothing was deleted.
for i, name in ipairs(KEYS) do
  local newest = redis.call('LINDEX', name, 0) or ''
  if redis.call('LLEN', name) ~= tonumber(ARGV[2 * i - 1]) or newest ~= ARGV[2 * i] then
    return 0
  end
end
redis.call('UNLINK', unpack(KEYS))
return 1
