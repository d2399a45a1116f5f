-- Refuses what Envoy's transcoder would drop, mistake or hand on without a word: unknown or repeated members of a JSON
-- body, repeated query parameters that may stand once, parameters that override the path, escapes that are no UTF-8,
-- gRPC that is not to be transcoded. What each route may carry comes from the descriptors (policy/transcoding.py).
-- The transcoder's JSON is looser than RFC 8259 (single quotes, bare names): what cannot be read here is refused.

local DEEPEST = 64

local ESCAPE = '^\\["\\/bfnrt]'
local LONG_ESCAPE = "^\\u%x%x%x%x"

-- Well-formed sequences of more than one byte (Unicode, table 3-7).
local SEQUENCES = {
  "[\194-\223][\128-\191]",
  "\224[\160-\191][\128-\191]",
  "[\225-\236\238\239][\128-\191][\128-\191]",
  "\237[\128-\159][\128-\191]",
  "\240[\144-\191][\128-\191][\128-\191]",
  "[\241-\243][\128-\191][\128-\191][\128-\191]",
  "\244[\128-\143][\128-\191][\128-\191]",
}

local function skip_space(text, at)
  return text:find("[^ \t\r\n]", at) or #text + 1
end

-- Give the position behind the string that begins at `at`, and what stands between its quotes.
local function read_string(text, at)
  local from = at + 1
  while true do
    local found = text:find('["\\%z\1-\31]', from)
    if not found then return nil end
    if text:sub(found, found) == '"' then return found + 1, text:sub(at + 1, found - 1) end
    local _, last = text:find(ESCAPE, found)
    if not last then _, last = text:find(LONG_ESCAPE, found) end
    if not last then return nil end
    from = last + 1
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
    local field, inner = name, kind:sub(1, 1) == "*" and kind:sub(2) or ""
    if fields then
      if not fields[name] then return nil, "unknown member " .. name end
      field, inner = fields[name]:match("^(%S+) (.*)$")
    end
    if seen[field] then return nil, "repeated member " .. name end
    seen[field] = true
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
  local _, last = text:find("^%-?%d+%.?%d*[eE]?[+-]?%d*", at)
  if last then return last + 1 end
  for _, word in ipairs({ "true", "false", "null" }) do
    if text:sub(at, at + #word - 1) == word then return at + #word end
  end
end

-- An empty body is an empty message.
local function check_body(text, kind, types)
  if skip_space(text, 1) > #text then return end
  local at, problem = read_value(text, 1, kind, types, 0)
  if problem then return problem end
  if not at or skip_space(text, at) <= #text then return "the body is not JSON" end
end

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
end

-- A text field of a message holds UTF-8 and nothing else: a backend could not even read the message.
local function check_escapes(target)
  if target:gsub("%%%x%x", ""):find("%", 1, true) then return "a percent sign without two digits" end
  local text = unescape(target)
  for _, sequence in ipairs(SEQUENCES) do text = text:gsub(sequence, ".") end
  if text:find("[\128-\255]") then return "escapes that are not UTF-8" end
end

-- What the path has set counts as seen: a parameter would override it, after all checks of the path.
local function check_query(query, rule)
  local seen = {}
  for _, field in ipairs(rule.bound) do seen[field] = true end
  for name in query:gmatch("([^&=]+)[^&]*") do
    name = unescape(name)
    local field = rule.once[name]
    if field and seen[field] then return "repeated query parameter " .. name end
    seen[field or name] = true
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
  local target, kind = headers:get(":path"), headers:get("content-type") or ""
  local path, _, query = target:match("^([^?]*)(%??)(.*)$")
  local rule = find_rule(context:get("rules"), headers:get(":method"), path)
  if not rule then return end
  local problem = check_escapes(target) or check_query(query, rule)
  if not problem and kind:lower():find("^application/grpc") then problem = "gRPC where JSON is expected" end
  if not problem and rule.body then
    local types, body = context:get("types"), handle:body()
    if body then problem = check_body(body:getBytes(0, body:length()), rule.body, types) end
  end
  if problem then refuse(handle, refusal, request, problem) end
end
