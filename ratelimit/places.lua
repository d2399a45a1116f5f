-- The places of places.py: a sorted set of holders by the microsecond until which each holds its place.

local places = {}

function places.load(key, now)
  local live = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', now), '+inf', 'WITHSCORES')
  if #live == 0 then return nil end
  local state = {held = {}, taken = 0, new = {}}
  for index = 1, #live, 2 do
    state.held[live[index]] = tonumber(live[index + 1])
    state.taken = state.taken + 1
  end
  return state
end

local function places_bounds(state, now)
  local soonest, latest
  for _, expiry in pairs(state.held) do
    soonest = math.min(soonest or expiry, expiry)
    latest = math.max(latest or expiry, expiry)
  end
  return soonest and soonest - now, latest and latest - now or 0
end

function places.spend(state, quota, now)
  local after = {held = {}, taken = 0, new = {}}
  if state then
    after.taken = state.taken
    for holder, expiry in pairs(state.held) do after.held[holder] = math.min(expiry, now + quota.period) end
    for holder, expiry in pairs(state.new) do after.new[holder] = expiry end
  end
  local known = after.held[quota.holder]
  if not known and after.taken >= quota.count then
    local soonest, latest = places_bounds(after, now)
    return after, false, {0, 0, soonest or quota.period, latest}
  end
  if not known then after.taken = after.taken + 1 end
  after.held[quota.holder] = now + quota.period
  after.new[quota.holder] = now + quota.period
  local _, latest = places_bounds(after, now)
  return after, false, {1, math.max(quota.count - after.taken, 0), 0, latest}
end

function places.look(state, quota, now)
  if not state then return {1, quota.count, 0, 0} end
  local _, latest = places_bounds(state, now)
  return {1, math.max(quota.count - state.taken, 0), 0, latest}
end

function places.refund(state, quota, now)
  state.held[quota.holder] = nil
  state.gone = quota.holder
  return state
end

function places.save(key, state, quota, now)
  if state.gone then redis.call('ZREM', key, state.gone) end
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
  local latest = now + quota.period
  for holder, expiry in pairs(state.new) do
    redis.call('ZADD', key, string.format('%.0f', expiry), holder)
  end
  for _, expiry in pairs(state.held) do latest = math.max(latest, expiry) end
  redis.call('PEXPIRE', key, string.format('%.0f', math.ceil((latest - now) / 1000) + 1))
end
