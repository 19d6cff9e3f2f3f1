-- Read how far a run has come, all at one moment.
-- KEYS  1 runs  2 todo  3 counts  4 state
-- ARGV  1 run id
-- Returns when the run was created, its number of unsettled questions, a flat list of outcomes and their numbers, and
-- its state; false for what is not there.
-- In MULTI, Redis before 7.4 refuses reads too while it is at its memory limit; in a script, only what needs memory.
return {
  redis.call('ZSCORE', KEYS[1], ARGV[1]),
  redis.call('SCARD', KEYS[2]),
  redis.call('HGETALL', KEYS[3]),
  redis.call('GET', KEYS[4]),
}
