# Net::HTTP and WEBrick in their default settings.
require "json"
require "net/http"
require "openssl"
require "webrick"

KEY = ENV.fetch("API_KEY")
API = ENV.fetch("API_URL") + "/gateway/mmo/v2"
callbacks = Queue.new

class Receiver < WEBrick::HTTPServlet::AbstractServlet
  def do_POST(request, response)
    unless OpenSSL.secure_compare(request["X-API-KEY"].to_s, KEY)
      response.status = 401
      return
    end
    @options.first << JSON.parse(request.body)
    response.status = 204
  end
end

server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: ENV.fetch("PORT").to_i, AccessLog: [])
server.mount("/", Receiver, callbacks)
Thread.new { server.start }
created = Net::HTTP.post(
  URI(API + "/direct/payin/mpesa_ke"), ENV.fetch("BODY"), "X-Api-Key" => KEY, "Content-Type" => "application/json"
)
result = callbacks.pop
found = Net::HTTP.get_response(
  URI(API + "/status/" + JSON.parse(created.body)["gatewayReference"]), { "X-Api-Key" => KEY }
)
puts JSON.generate(created: created.code.to_i, callback: result["status"], found: JSON.parse(found.body)["status"])
$stdout.flush
$stdin.read
