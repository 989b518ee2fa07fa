#!/usr/bin/env bash
# Package: npm mtn-momo 2.0.0, with typescript 5.9.3
# Expected: `isPayerActive` tells whether an account holder is active, in the type that it declares:
#   MTN answers `{"result": false}` for a number without an account.
# Seen: It resolves to MTN's whole answer, an object, for which its types promise a text; both are
#   true wherever a condition looks at them, and `found.result` does not compile.
# Matters: A shop prompts, and pays out to, numbers that have no account. Compare the member, as in
#   `(found as any).result === true`.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund mtn-momo@2.0.0 typescript@5.9.3

cat >ask.js <<'END'
const http = require("node:http");
const momo = require("mtn-momo");

const server = http.createServer((request, response) => {
  response.setHeader("content-type", "application/json");
  const isToken = request.url.endsWith("/token/");
  const token = { access_token: "token", token_type: "access_token", expires_in: 3600 };
  response.end(JSON.stringify(isToken ? token : { result: request.url.includes("/256772123456/") }));
});

server.listen(0, "127.0.0.1", async () => {
  const baseUrl = `http://127.0.0.1:${server.address().port}`;
  const { Collections } = momo.create({ callbackHost: "shop.example", baseUrl });
  const userId = "11111111-2222-4333-8444-555555555555";
  const collections = Collections({ primaryKey: "key", userId, userSecret: "secret" });
  for (const number of ["256772123456", "256772000000"]) {
    const found = await collections.isPayerActive(number);
    console.log(number, JSON.stringify(found), found ? "is asked to pay" : "is not asked");
  }
  server.close();
});
END
cat >ask.ts <<'END'
import * as momo from "mtn-momo";

type Collections = ReturnType<ReturnType<typeof momo.create>["Collections"]>;

export async function ask(collections: Collections) {
  const found: string = await collections.isPayerActive("256772000000");
  return found.result === false;
}
END

{
  node ask.js
  npx tsc --noEmit --skipLibCheck --target es2020 --moduleResolution node --module commonjs ask.ts || true
} | tee seen
diff - seen <<'END'
256772123456 {"result":true} is asked to pay
256772000000 {"result":false} is asked to pay
ask.ts(7,16): error TS2339: Property 'result' does not exist on type 'string'.
END
