// node:http or node:https, client and server, in their default settings.
import http from "node:http";
import https from "node:https";
import { timingSafeEqual } from "node:crypto";
import { buffer, json } from "node:stream/consumers";

const { API_URL, API_KEY, BODY, PORT } = process.env;
const api = `${API_URL}/gateway/mmo/v2`;
const client = api.startsWith("https:") ? https : http;

function ask(method, path, headers, body) {
  return new Promise((resolve, reject) => {
    const request = client.request(api + path, { method, headers: { "X-Api-Key": API_KEY, ...headers } });
    request.on("response", async (response) => resolve([response.statusCode, await json(response)]));
    request.on("error", reject).end(body);
  });
}

let take;
const callback = new Promise((resolve) => (take = resolve));
const server = http.createServer(async (request, response) => {
  const sent = Buffer.from(request.headers["x-api-key"] ?? "");
  const body = await buffer(request);
  const right = sent.length === API_KEY.length && timingSafeEqual(sent, Buffer.from(API_KEY));
  response.writeHead(right ? 204 : 401).end();
  if (right) take(JSON.parse(body));
});
await new Promise((listening) => server.listen(PORT, "127.0.0.1", listening));
const [created, payment] = await ask("POST", "/direct/payin/mpesa_ke", { "Content-Type": "application/json" }, BODY);
const result = await callback;
const [, found] = await ask("GET", `/status/${payment.gatewayReference}`, {});
console.log(JSON.stringify({ created, callback: result.status, found: found.status }));
process.stdin.resume().on("end", () => process.exit(0));
