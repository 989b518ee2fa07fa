// Pays with the types that openapi-typescript writes, and prints how the payment ended.
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };

type Body = components["schemas"]["DirectPayinRequest"];
type Answer = paths["/gateway/mmo/v2/direct/payin/{method}"]["post"]["responses"]["200"]["content"]["application/json"];
type Transaction = components["schemas"]["Transaction"];

const [api, key] = process.argv.slice(2) as [string, string];
const headers = { "X-Api-Key": key, "Content-Type": "application/json" };
const body: Body = {
  amount: { value: 150, currency: "KES" },
  payer: { id: "customer-7", msisdn: "254700000007" },
  country: "KE",
  resultUrl: "https://localhost:9/callbacks",
  merchantReference: "typescript-1",
};
const created = await fetch(`${api}/gateway/mmo/v2/direct/payin/mpesa_ke`, { method: "POST", headers, body: JSON.stringify(body) });
if (!created.ok) throw new Error(await created.text());
const { gatewayReference }: Answer = await created.json();
let found: Transaction;
do found = await (await fetch(`${api}/gateway/mmo/v2/status/${gatewayReference}`, { headers })).json();
while (found.status === "pending");
console.log(JSON.stringify({ status: found.status, value: found.finalAmount?.value }));
