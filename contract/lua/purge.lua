-- Delete a run.
-- KEYS  1 runs  2 open runs  3 weights, then all of its own
-- ARGV  1 run id
-- Not in MULTI, where Redis before 7.4 refuses deletions too while it is at its memory limit, and could not be emptied.
redis.call('UNLINK', unpack(KEYS, 4))
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('SREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
