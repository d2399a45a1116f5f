-- The token bucket of bucket.py, tick: the microsecond.
--
-- Lua has doubles, whole only up to 2^53. Python hands over counts and bursts of at most 2^40 and periods of at most
-- 2^52 microseconds, and no product below is built before it is known to fit.

local WHOLE = 2 ^ 53
local LONGEST = 2 ^ 52

-- floor(a * b / c) and what the division leaves, for a < c
local function scale(a, b, c)
  local product = a * b
  if product < WHOLE then
    local rest = math.fmod(product, c)
    return (product - rest) / c, rest
  end
  local bit, quotient, rest = 1, 0, 0
  while bit * 2 <= b do bit = bit * 2 end
  while bit >= 1 do
    quotient, rest = quotient * 2, rest * 2
    if rest >= c then quotient, rest = quotient + 1, rest - c end
    if b >= bit then
      b, rest = b - bit, rest + a
      if rest >= c then quotient, rest = quotient + 1, rest - c end
    end
    bit = bit / 2
  end
  return quotient, rest
end

local bucket = {}

function bucket.load(key)
  local text = redis.call('GET', key)
  if not text then return nil end
  local anchor, tokens, high, born = string.match(text, '^(%d+) (%-?%d+) (%d+) (%d+)$')
  return {anchor = tonumber(anchor), tokens = tonumber(tokens), high = tonumber(high), born = tonumber(born)}
end

function bucket.refill(state, quota, now)
  local burst, count, period = quota.burst, quota.count, quota.period
  if not state then return {anchor = now, tokens = burst, high = burst, born = now}, burst end
  local anchor, tokens, high = state.anchor, state.tokens, state.high
  if burst > high then tokens, high = tokens + burst - high, burst end
  local elapsed = math.max(now - anchor, 0)
  local rest = math.fmod(elapsed, period)
  local gained = (elapsed - rest) / period * count
  if tokens + gained < burst then
    tokens, anchor = tokens + gained, now - rest
    local level = tokens + scale(rest, count, period)
    if level < burst then return {anchor = anchor, tokens = tokens, high = high, born = state.born}, level end
  end
  return {anchor = now, tokens = burst, high = high, born = state.born}, burst
end

function bucket.wait(state, quota, level, now)
  local missing = level - state.tokens
  if missing <= 0 then return 0 end
  if quota.count <= 0 then return quota.period end
  local rest = math.fmod(missing, quota.count)
  local periods = (missing - rest) / quota.count
  if periods * quota.period >= LONGEST then return LONGEST end
  local part, left = scale(rest, quota.period, quota.count)
  if left > 0 then part = part + 1 end
  return math.max(0, math.min(LONGEST, periods * quota.period + part + state.anchor - now))
end

-- Returns the state afterwards, whether it must be kept even if the spend fails, and the four numbers of an outcome
function bucket.spend(state, quota, now)
  local settled, level = bucket.refill(state, quota, now)
  local cost = quota.cost
  if cost <= level or cost == 0 then
    settled.tokens = settled.tokens - cost
    return settled, false, {1, math.max(level - cost, 0), 0, bucket.wait(settled, quota, quota.burst, now)}
  end
  local reset = bucket.wait(settled, quota, quota.burst, now)
  local retry = cost > quota.burst and math.max(reset, quota.period) or bucket.wait(settled, quota, cost, now)
  local ahead = state and state.anchor > now
  return ahead and settled or state, ahead, {0, math.max(level, 0), retry, reset}
end

function bucket.refund(state, quota, now)
  local settled = bucket.refill(state, quota, now)
  settled.tokens = settled.tokens + quota.cost
  return settled
end

function bucket.draw(state, quota, wish, now)
  local settled, level = bucket.refill(state, quota, now)
  local reborn = settled.born > wish.since
  local charge = reborn and math.max(wish.owed, wish.deficit) or wish.owed
  local granted = math.min(wish.want, reborn and 0 or math.max(level - charge, 0))
  settled.tokens = settled.tokens - charge - granted
  return settled, {granted, level - charge - granted, bucket.wait(settled, quota, quota.burst, now)}
end

-- State and expiry go in one command: no counter can be left without one (a bucket full again is the same as none)
function bucket.save(key, state, quota, now)
  local whole = bucket.wait(state, quota, math.max(state.high, quota.burst), now)
  local text = string.format('%.0f %.0f %.0f %.0f', state.anchor, state.tokens, state.high, state.born)
  redis.call('SET', key, text, 'PX', string.format('%.0f', math.ceil(whole / 1000) + 1))
end
