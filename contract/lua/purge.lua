-- Delete runs, all in one step: a command that is broken off and repeated finds either all of them or none.
-- KEYS  1 runs  2 open runs  3 weights, then all of their own
-- ARGV  run ids
-- Not in MULTI, where Redis before 7.4 refuses deletions too while it is at its memory limit, and could not be emptied.
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
for _, run in ipairs(ARGV) do
  redis.call('ZREM', KEYS[1], run)
  redis.call('SREM', KEYS[2], run)
  redis.call('HDEL', KEYS[3], run)
end
