-- Tries every command that the other scripts call, on the keys they call it on, and changes nothing: so a permission that is
-- missing is known before it is needed.
--
-- KEYS  1 a key beside the partitions' hashes that never exists, 2 the hash of the cluster's name
--
-- Answers an array of names and errors in turn: commands that were refused. Empty when all is well.
local refused = {}
local function try(word, answer)
  if type(answer) == 'table' and answer.err then
    refused[#refused + 1] = word
    refused[#refused + 1] = answer.err
  end
end

try('info', redis.pcall('INFO', 'server'))
for _, key in ipairs(KEYS) do
  try('hmget', redis.pcall('HMGET', key, 'uuid'))
end
try('hgetall', redis.pcall('HGETALL', KEYS[1]))
try('del', redis.pcall('DEL', KEYS[1]))

-- A name without a value: Redis looks at permissions first, then refuses it, and that refusal is the answer wanted here.
for _, key in ipairs(KEYS) do
  local answer = redis.pcall('HSET', key, 'uuid', 'x', 'y')
  if type(answer) ~= 'table' or not string.find(answer.err or '', 'number of arguments', 1, true) then
    try('hset', answer)
  end
end
return refused
