-- Puts a partition's record into the name of a new keeper, and says what was kept before. All in one call: nobody writes
-- between the reading and the claim, and the life of the store that is told is the one that the claim lies in.
--
-- KEYS  1 the partition's hash, 2 the hash of the cluster's name
-- ARGV  1 format, 2 epoch, 3 session, 4 uuid of the cluster, 5 number of the keeper's last write (0 before the first): no
--       write under it or a lower one counts after the claim
--
-- Answers: status, run id, history id, uuid of an earlier cluster of this name ('' if none), then
--   new      nothing was kept: an empty header is there now
--   taken    epoch, session, count, whole, of the header before; then all fields of the hash, names and values in turn
--   held     this very keeper has written under its claim already; nothing changed
--   fenced   epoch, session, of a keeper who came later; nothing changed
--   format   somebody keeps another format here; nothing changed
--   replica  this store does not take writes; nothing changed
local partition, name = KEYS[1], KEYS[2]
local format, epoch, session, uuid, number = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local run = string.match(redis.call('INFO', 'server'), '\nrun_id:(%x+)') or ''
local replication = redis.call('INFO', 'replication')
local history = string.match(replication, '\nmaster_replid:(%x+)') or ''
if string.match(replication, '\nrole:(%a+)') ~= 'master' then
  return {'replica', run, history, ''}
end

local head = redis.call('HMGET', partition, 'f', 'e', 's', 'q', 'n', 'c', 'pe', 'ps', 'pn', 'pc')
local f, e, s, q, n, c = head[1], head[2], head[3], head[4], head[5], head[6]
local pe, ps, pn, pc = head[7], head[8], head[9], head[10]

-- The hash of the name remembers who lived under it last and before, so that a new cluster knows that it is not the first.
local names = redis.call('HMGET', name, 'uuid', 'previous')
local known, previous = names[1], names[2] or ''
if known ~= uuid then
  previous = known or previous
  redis.call('HSET', name, 'uuid', uuid, 'previous', previous)
end

if not f then
  -- A hash with fields and no header is nobody's record. Its fields would be counted as the new keeper's.
  redis.call('DEL', partition)
  redis.call('HSET', partition, 'f', format, 'e', epoch, 's', session, 'q', number, 'n', '0', 'c', '0')
  return {'new', run, history, previous}
end

local reads = tonumber(e) and s and string.match(s, '^%x+%.%x+%.%d+$') and tonumber(q) and tonumber(n) and c
if f ~= format or not reads then
  return {'format', run, history, previous}
end

if e == epoch and s == session then
  if c == '1' then
    return {'held', run, history, previous}
  end
  -- The claim is asked again, since its answer was lost: the same answer. More may have been sent meanwhile, and never less.
  if tonumber(number) > tonumber(q) then
    redis.call('HSET', partition, 'q', number)
  end
  if not pe then
    return {'new', run, history, previous}
  end
  return {'taken', run, history, previous, pe, ps or '', pn or '', pc or '', redis.call('HGETALL', partition)}
end

if tonumber(e) >= tonumber(epoch) then
  return {'fenced', run, history, previous, e, s}
end

redis.call('HSET', partition, 'e', epoch, 's', session, 'q', number, 'c', '0', 'pe', e, 'ps', s, 'pn', n, 'pc', c)
return {'taken', run, history, previous, e, s, n, c, redis.call('HGETALL', partition)}
