-- One create after the other, each with a reference of its own; prints what wasn't a 200.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["X-Api-Key"] = os.getenv("LOAD_KEY")
local run = os.getenv("LOAD_RUN")
local number = 0
request = function()
  number = number + 1
  return wrk.format(nil, nil, nil, '{"amount":{"value":100.00,"currency":"KES"},"payer":{"id":"u1","msisdn":"254712345678"},"country":"KE","resultUrl":"https://example.com/cb","merchantReference":"m-' .. run .. '-' .. number .. '"}')
end
done = function(summary, latency)
  io.write(string.format("RESULT %f %f %f %d\n", summary.requests / summary.duration * 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, summary.errors.status))
end
