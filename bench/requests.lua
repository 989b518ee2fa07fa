-- Creates, each with a reference of its own, or look-ups of the references in a file; prints one line that load.py reads.
local key, run = os.getenv("LOAD_KEY"), os.getenv("LOAD_RUN")
local path, body, file = os.getenv("LOAD_PATH"), os.getenv("LOAD_BODY"), os.getenv("LOAD_REFERENCES")
wrk.headers["X-Api-Key"] = key
local number = 0
if file then
  local references = {}
  for line in io.lines(file) do references[#references + 1] = line end
  request = function()
    number = number + 1
    return wrk.format("GET", path .. references[(number * 7919) % #references + 1])
  end
else
  local before, after = body:match("^(.*)REFERENCE(.*)$")
  wrk.headers["Content-Type"] = "application/json"
  request = function()
    number = number + 1
    return wrk.format("POST", path, nil, before .. run .. "-" .. number .. after)
  end
end
done = function(summary, latency)
  local errors = summary.errors
  local bad = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format("RESULT %f %f %f %d %d\n", summary.requests / summary.duration * 1e6,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000, bad, summary.requests))
end
