-- The store's verbs, many groups in one call: each group is decided by itself, all or nothing.
--
-- KEYS: the counters of all groups, in order. ARGV: the time in microseconds ("" reads the server's clock), then for
-- each group "verb size" and for each of its counters one string of fields:
--   spend, look, refund: "kind count period burst cost enforced", and for a place the holder as a string of its own
--   draw:                 "kind count period burst owed want deficit since"
-- Answers one string of numbers: the time, then four for each counter of spend and look (allowed, remaining, retry,
-- reset), three for draw (granted, left, reset), none for refund. One string is read far faster than a list.

local meters = {b = bucket, w = window, p = places}
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end
local reply = {string.format('%.0f', now)}
local argument, counter = 2, 1

local function answer(numbers)
  for _, number in ipairs(numbers) do table.insert(reply, string.format('%.0f', number)) end
end

local function take()
  argument = argument + 1
  return ARGV[argument - 1]
end

local function take_key()
  counter = counter + 1
  return KEYS[counter - 1]
end

local function take_charge()
  local fields = string.gmatch(take(), '%S+')
  local charge = {key = take_key(), meter = meters[fields()]}
  charge.count, charge.period, charge.burst = tonumber(fields()), tonumber(fields()), tonumber(fields())
  charge.cost, charge.enforced = tonumber(fields()), fields() == '1'
  if charge.meter == places then charge.holder = take() end
  return charge
end

local function look_at(charge)
  local state = charge.meter.load(charge.key, now)
  if charge.meter.look then return charge.meter.look(state, charge, now) end
  charge.cost = 0
  local _, _, outcome = charge.meter.spend(state, charge, now)
  return outcome
end

local function settle(charges, outcomes, staged, passes)
  for index, charge in ipairs(charges) do
    local stage = staged[charge.key]
    if passes or stage.forced then
      if not stage.saved and stage.state then charge.meter.save(charge.key, stage.state, charge, now) end
      stage.saved = true
    end
    answer((passes or outcomes[index][1] == 0) and outcomes[index] or look_at(charge))
  end
end

local verbs = {}

function verbs.spend(size)
  local charges, outcomes, staged, passes = {}, {}, {}, true
  for index = 1, size do
    local charge = take_charge()
    local stage = staged[charge.key] or {state = charge.meter.load(charge.key, now)}
    local forced
    stage.state, forced, outcomes[index] = charge.meter.spend(stage.state, charge, now)
    stage.forced = stage.forced or forced
    staged[charge.key], charges[index] = stage, charge
    if outcomes[index][1] == 0 and charge.enforced then passes = false end
  end
  settle(charges, outcomes, staged, passes)
end

function verbs.look(size)
  for _ = 1, size do answer(look_at(take_charge())) end
end

function verbs.refund(size)
  for _ = 1, size do
    local charge = take_charge()
    local state = charge.meter.load(charge.key, now)
    if state then charge.meter.save(charge.key, charge.meter.refund(state, charge, now), charge, now) end
  end
end

function verbs.draw(size)
  for _ = 1, size do
    local key, fields = take_key(), string.gmatch(take(), '%S+')
    local meter = meters[fields()]
    local quota = {count = tonumber(fields()), period = tonumber(fields()), burst = tonumber(fields())}
    local wish = {owed = tonumber(fields()), want = tonumber(fields()), deficit = tonumber(fields())}
    wish.since = tonumber(fields())
    local state, outcome = meter.draw(meter.load(key, now), quota, wish, now)
    meter.save(key, state, quota, now)
    answer(outcome)
  end
end

while argument <= #ARGV do
  local verb, size = string.match(take(), '(%S+) (%d+)')
  verbs[verb](tonumber(size))
end
return table.concat(reply, ' ')
