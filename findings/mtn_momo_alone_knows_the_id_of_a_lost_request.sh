#!/usr/bin/env bash
# Package: npm mtn-momo 2.0.0
# Expected: Who asks for a payment chooses its X-Reference-Id, so that a request whose answer is lost
#   can be asked about.
# Seen: `requestToPay` and `transfer` make a new one inside of each call, and return it only with the
#   answer: a `referenceId` that is handed in is sent as a member of the body. Where the connection
#   ends first, the error has no id of its own, and a second call is a second payment.
# Matters: A payer is asked twice, and a salary may be paid twice. Take the id from the error's
#   `config.headers`, where it is one of axios, and ask about it before anything is sent again.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund mtn-momo@2.0.0

cat >ask.js <<'END'
const http = require("node:http");
const momo = require("mtn-momo");

const seen = [];
const server = http.createServer((request, response) => {
  if (request.url.endsWith("/token/")) {
    response.setHeader("content-type", "application/json");
    response.end('{"access_token":"token","token_type":"access_token","expires_in":3600}');
    return;
  }
  let body = "";
  request.on("data", (data) => (body += data));
  request.on("end", () => {
    seen.push({ id: request.headers["x-reference-id"], body: JSON.parse(body) });
    request.socket.destroy(); // The operator has it; its answer is lost.
  });
});

server.listen(0, "127.0.0.1", async () => {
  const baseUrl = `http://127.0.0.1:${server.address().port}`;
  const { Collections } = momo.create({ callbackHost: "shop.example", baseUrl });
  const userId = "11111111-2222-4333-8444-555555555555";
  const keys = { primaryKey: "key", userId, userSecret: "secret" };
  const collections = Collections(keys);
  const payment = {
    amount: "1500",
    currency: "EUR",
    externalId: "order-1",
    payer: { partyIdType: "MSISDN", partyId: "256772123456" },
    payerMessage: "order",
    payeeNote: "order",
    referenceId: "11111111-1111-4111-8111-111111111111",
  };
  for (const attempt of [1, 2]) {
    try {
      await collections.requestToPay(payment);
    } catch (error) {
      const { id, body } = seen[seen.length - 1];
      console.log("attempt", attempt, error.code);
      console.log("the id was the caller's:", id === payment.referenceId);
      console.log("the caller's is in the body:", body.referenceId === payment.referenceId);
      console.log("own property of the error names it:", error.referenceId === id);
      console.log("config.headers names it:", error.config.headers["X-Reference-Id"] === id);
    }
  }
  console.log("two payments:", seen[0].id !== seen[1].id);
  server.close();
});
END

node ask.js 2>&1 | tee seen
diff - seen <<'END'
attempt 1 ECONNRESET
the id was the caller's: false
the caller's is in the body: true
own property of the error names it: false
config.headers names it: true
attempt 2 ECONNRESET
the id was the caller's: false
the caller's is in the body: true
own property of the error names it: false
config.headers names it: true
two payments: true
END
