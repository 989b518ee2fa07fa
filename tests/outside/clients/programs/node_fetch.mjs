// fetch and node:http's server in their default settings.
import { createServer } from "node:http";
import { timingSafeEqual } from "node:crypto";
import { buffer } from "node:stream/consumers";

const { API_URL, API_KEY, BODY, PORT } = process.env;
const api = `${API_URL}/gateway/mmo/v2`;
let take;
const callback = new Promise((resolve) => (take = resolve));
const server = createServer(async (request, response) => {
  const sent = Buffer.from(request.headers["x-api-key"] ?? "");
  const body = await buffer(request);
  const right = sent.length === API_KEY.length && timingSafeEqual(sent, Buffer.from(API_KEY));
  response.writeHead(right ? 204 : 401).end();
  if (right) take(JSON.parse(body));
});
await new Promise((listening) => server.listen(PORT, "127.0.0.1", listening));
const created = await fetch(`${api}/direct/payin/mpesa_ke`, {
  method: "POST",
  headers: { "X-Api-Key": API_KEY, "Content-Type": "application/json" },
  body: BODY,
});
const { gatewayReference } = await created.json();
const result = await callback;
const found = await (await fetch(`${api}/status/${gatewayReference}`, { headers: { "X-Api-Key": API_KEY } })).json();
console.log(JSON.stringify({ created: created.status, callback: result.status, found: found.status }));
process.stdin.resume().on("end", () => process.exit(0));
