-- The sliding window of window.py, tick: the microsecond.

local GRAINS = 64

local window = {}

function window.load(key)
  local text = redis.call('GET', key)
  if not text then return nil end
  local state, stamp = {entries = {}}, nil
  for number in string.gmatch(text, '%d+') do
    if not state.first then
      state.first = tonumber(number)
    elseif not stamp then
      stamp = tonumber(number)
    else
      table.insert(state.entries, {stamp, tonumber(number)})
      stamp = nil
    end
  end
  return state
end

function window.roll(state, quota, now)
  if not state then return {first = now, entries = {}}, 0 end
  local entries, used = {}, 0
  for _, entry in ipairs(state.entries) do
    if entry[1] > now - quota.period then
      table.insert(entries, {math.min(entry[1], now), entry[2]})
      used = used + entry[2]
    end
  end
  return {first = math.min(state.first, now), entries = entries}, used
end

local function window_wait(state, quota, missing, now)
  for _, entry in ipairs(state.entries) do
    missing = missing - entry[2]
    if missing <= 0 then return entry[1] + quota.period - now end
  end
  return quota.period
end

local function window_reset(state, quota, now)
  local newest = state.entries[#state.entries]
  return newest and newest[1] + quota.period - now or 0
end

local function window_record(state, quota, cost, now)
  local entries = state.entries
  if cost <= 0 then return end
  if #entries > 0 and (now - state.first) * GRAINS < quota.period then
    entries[#entries] = {now, entries[#entries][2] + cost}
  else
    state.first = now
    table.insert(entries, {now, cost})
  end
end

function window.spend(state, quota, now)
  local rolled, used = window.roll(state, quota, now)
  local room, cost = math.max(quota.count - used, 0), quota.cost
  if cost > room then
    local retry = window_wait(rolled, quota, used + cost - quota.count, now)
    local newest = state and state.entries[#state.entries]
    local ahead = newest and newest[1] > now
    return ahead and rolled or state, ahead, {0, room, retry, window_reset(rolled, quota, now)}
  end
  window_record(rolled, quota, cost, now)
  return rolled, false, {1, room - cost, 0, window_reset(rolled, quota, now)}
end

-- Nothing is granted ahead of a window: the draw only records what was owed
function window.draw(state, quota, wish, now)
  local rolled, used = window.roll(state, quota, now)
  window_record(rolled, quota, wish.owed, now)
  return rolled, {0, quota.count - used - wish.owed, window_reset(rolled, quota, now)}
end

function window.refund(state, quota, now)
  local rolled, cost = window.roll(state, quota, now), quota.cost
  local entries = rolled.entries
  while cost > 0 and #entries > 0 do
    local back = math.min(cost, entries[#entries][2])
    cost, entries[#entries][2] = cost - back, entries[#entries][2] - back
    if entries[#entries][2] == 0 then table.remove(entries) end
  end
  return rolled
end

function window.save(key, state, quota, now)
  if #state.entries == 0 then
    redis.call('DEL', key)
    return
  end
  local parts = {string.format('%.0f', state.first)}
  for _, entry in ipairs(state.entries) do
    table.insert(parts, string.format('%.0f %.0f', entry[1], entry[2]))
  end
  local life = string.format('%.0f', math.ceil(window_reset(state, quota, now) / 1000) + 1)
  redis.call('SET', key, table.concat(parts, ' '), 'PX', life)
end
