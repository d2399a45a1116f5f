-- When the data of this store began, and when somebody first missed what was there before.
--
-- KEYS: the mark. ARGV: the time in microseconds ("" reads the server's clock), and the beginning that the caller knows
-- of (0 for none). Answers "began lost now"; lost is 0 where nobody missed anything. The mark outlives every counter
-- and is renewed by whoever connects.

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local known = tonumber(ARGV[2])
local began, lost = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
began, lost = tonumber(began) or now, tonumber(lost) or 0
if known > 0 and known ~= began and lost == 0 then lost = now end
local text = string.format('%.0f %.0f', began, lost)
redis.call('SET', KEYS[1], text, 'PX', '34560000000')
return text .. string.format(' %.0f', now)
