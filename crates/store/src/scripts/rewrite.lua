-- Writes all keys of a partition anew, in place of whatever lies there, in the name of its keeper and nobody else's. Never
-- makes a header: a copy that comes after a flush would bring back what was long overtaken, and its number is forgotten.
--
-- KEYS  1 the partition's hash
-- ARGV  1 format, 2 epoch, 3 session, 4 sequence number, 5 how long since the worst was assumed ('' if it was not), then
--       names and values of all fields in turn
--
-- Answers: status, then
--   ok     written; the record is whole
--   lost   epoch, session, of whose header is there ('' and '' for none); nothing changed
--   stale  a copy of this write, a later one, or a claim under as high a number was here before; nothing changed
local partition = KEYS[1]
local format, epoch, session, seq, assumed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- Far below what Lua can unpack at once, and even: a name never parts from its value.
local CHUNK = 1000

local head = redis.call('HMGET', partition, 'f', 'e', 's', 'q')
local f, e, s, q = head[1], head[2], head[3], tonumber(head[4])
if f ~= format or e ~= epoch or s ~= session or not q then
  return {'lost', e or '', s or ''}
end
if tonumber(seq) <= q then
  return {'stale'}
end

redis.call('DEL', partition)
-- Counted by what Redis says it added: a name that comes twice is one field.
local n = 0
for at = 6, #ARGV, CHUNK do
  n = n + redis.call('HSET', partition, unpack(ARGV, at, math.min(at + CHUNK - 1, #ARGV)))
end
redis.call('HSET', partition, 'f', format, 'e', epoch, 's', session, 'q', seq, 'n', string.format('%d', n), 'c', '1',
  'a', assumed)
return {'ok'}
