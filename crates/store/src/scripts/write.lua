-- Writes some keys of a partition in the name of its keeper, and nobody else's. Never makes a header: where there is none, or
-- another's, the record is lost, and a flush is no fresh start.
--
-- KEYS  1 the partition's hash
-- ARGV  1 format, 2 epoch, 3 session, 4 sequence number, 5 how long since the worst was assumed ('' if it was not), then
--       names and values of fields to set in turn
--
-- Answers: status, then
--   ok     written; the record was whole and is
--   lost   epoch, session, of whose header is there, this one's where it was only claimed ('' and '' for none); nothing changed
--   stale  a copy of this write, a later one, or a claim under as high a number was here before; nothing changed
local partition = KEYS[1]
local format, epoch, session, seq, assumed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Far below what Lua can unpack at once, and even: a name never parts from its value.
local CHUNK = 1000

local head = redis.call('HMGET', partition, 'f', 'e', 's', 'q', 'n', 'c')
local f, e, s, q, n, c = head[1], head[2], head[3], tonumber(head[4]), tonumber(head[5]), head[6]
-- What was only claimed holds nothing of its keeper's: a late copy of a claim, after a flush, looks just so. A few keys must
-- not make it whole.
if f ~= format or e ~= epoch or s ~= session or not q or not n or c ~= '1' then
  return {'lost', e or '', s or ''}
end
if tonumber(seq) <= q then
  return {'stale'}
end

-- The number of fields is kept from what Redis says it added: exact, whatever was there.
for at = 6, #ARGV, CHUNK do
  n = n + redis.call('HSET', partition, unpack(ARGV, at, math.min(at + CHUNK - 1, #ARGV)))
end
redis.call('HSET', partition, 'q', seq, 'n', string.format('%d', n), 'c', '1', 'a', assumed)
return {'ok'}
