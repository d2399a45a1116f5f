-- Refuses what Envoy's transcoder would silently drop: unknown or repeated members of a JSON body, and repeated query
-- parameters that may stand once. What each route may carry comes from the descriptors (policy/transcoding.py).
-- JSON that is not well-formed is left to the transcoder, which refuses it.

local DEEPEST = 64

local function skip_space(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

-- Give the position behind the string that begins at `at`, and what stands between its quotes.
local function read_string(text, at)
  local from = at + 1
  while true do
    local found = text:find('["\\]', from)
    if not found then return nil end
    if text:sub(found, found) == '"' then return found + 1, text:sub(at + 1, found - 1) end
    from = found + 2
  end
end

local read_value

local function read_members(text, at, kind, types, depth)
  local fields, seen = types[kind], {}
  at = skip_space(text, at + 1)
  if text:sub(at, at) == "}" then return at + 1 end
  while true do
    if text:sub(at, at) ~= '"' then return nil end
    local after, name = read_string(text, at)
    if not after then return nil end
    local inner = kind:sub(1, 1) == "*" and kind:sub(2) or ""
    if fields then
      inner = fields[name]
      if inner == nil then return nil, "unknown member " .. name end
    end
    if seen[name] then return nil, "repeated member " .. name end
    seen[name] = true
    at = skip_space(text, after)
    if text:sub(at, at) ~= ":" then return nil end
    local problem
    at, problem = read_value(text, at + 1, inner, types, depth)
    if not at then return nil, problem end
    at = skip_space(text, at)
    local sign = text:sub(at, at)
    if sign == "}" then return at + 1 end
    if sign ~= "," then return nil end
    at = skip_space(text, at + 1)
  end
end

local function read_items(text, at, kind, types, depth)
  at = skip_space(text, at + 1)
  if text:sub(at, at) == "]" then return at + 1 end
  while true do
    local problem
    at, problem = read_value(text, at, kind, types, depth)
    if not at then return nil, problem end
    at = skip_space(text, at)
    local sign = text:sub(at, at)
    if sign == "]" then return at + 1 end
    if sign ~= "," then return nil end
    at = at + 1
  end
end

-- Give the position behind the value at `at`, or nil and what is wrong with it.
-- `kind` is a message name, "*" and a kind for a map of it, or "" for anything.
function read_value(text, at, kind, types, depth)
  if depth > DEEPEST then return nil, "members nested too deep" end
  at = skip_space(text, at)
  local sign = text:sub(at, at)
  if sign == "{" then return read_members(text, at, kind, types, depth + 1) end
  if sign == "[" then return read_items(text, at, kind, types, depth + 1) end
  if sign == '"' then return (read_string(text, at)) end
  local _, last = text:find("^[%w+.-]+", at)
  return last and last + 1
end

local function check_query(query, once)
  local seen = {}
  for name in query:gmatch("([^&=]+)[^&]*") do
    name = name:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end)
    if seen[name] and once[name] then return "repeated query parameter " .. name end
    seen[name] = true
  end
end

local function find_rule(rules, method, path)
  for _, rule in ipairs(rules) do
    if rule.method == method and path:find(rule.pattern) then return rule end
  end
end

local function refuse(handle, refusal, request, problem)
  local told = { DETAIL = problem:gsub("[^%w_. -]", "?"), REQUEST = request:gsub("[^%w-]", "?") }
  local document = refusal:gsub("@(%u+)@", told)
  handle:respond({ [":status"] = "400", ["content-type"] = "application/problem+json" }, document)
end

function envoy_on_request(handle)
  -- Waiting for the body ends the life of everything that Envoy lent before: take what is needed first.
  local context, headers = handle:filterContext(), handle:headers()
  local request, refusal = headers:get("x-request-id") or "", context:get("refusal")
  local path, _, query = headers:get(":path"):match("^([^?]*)(%??)(.*)$")
  local rule = find_rule(context:get("rules"), headers:get(":method"), path)
  if not rule then return end
  local problem = check_query(query, rule.once)
  if not problem and rule.body then
    local types, body = context:get("types"), handle:body()
    if body then
      _, problem = read_value(body:getBytes(0, body:length()), 1, rule.body, types, 0)
    end
  end
  if problem then refuse(handle, refusal, request, problem) end
end
