// A receiver of result callbacks, with nothing but Node: checks the key, keeps each result once, answers.
//
//     API_KEY=... node callback_receiver.mjs --port 9443 --certificate cert.pem --key key.pem --results results
//
// `API_KEY` is your key; while you change keys it holds the old and the new one, with a space between. Without a
// certificate it serves clear HTTP on this machine only, for a web server in front of it. Each result becomes a file
// `results/<gatewayReference>.json`; the file is what makes a repeat a repeat.

import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import * as fs from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { parseArgs } from "node:util";

const BODY_BYTES_MAX = 1024 * 1024; // more than any transaction object has
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

const { values: given } = parseArgs({
  options: {
    port: { type: "string", default: "9443" }, // 0 picks a free one
    certificate: { type: "string" }, // certificate chain (PEM)
    key: { type: "string" }, // its private key (PEM)
    results: { type: "string", default: "results" }, // where results go
  },
});

const keys = (process.env.API_KEY ?? "").split(/\s+/).filter(Boolean);
if (keys.length === 0) {
  console.error("Set API_KEY to your key: without it every callback would be refused.");
  process.exit(1);
}
fs.mkdirSync(given.results, { recursive: true });

const digest = (text) => createHash("sha256").update(text).digest();

/** Whether this is one of our keys; takes as long whichever character is wrong (digests have equal lengths). */
function isOurs(header) {
  const digested = digest(header ?? "");
  return keys.map((key) => timingSafeEqual(digested, digest(key))).includes(true);
}

/** The transaction object in this body, or null when it isn't one. */
function transactionIn(body) {
  try {
    const found = JSON.parse(body.toString("utf8"));
    return typeof found?.gatewayReference === "string" && ULID.test(found.gatewayReference) ? found : null;
  } catch {
    return null;
  }
}

/**
 * Store the result, whole or not at all; false when it was there already. `link` is the judge: of two that come at
 * once, one makes the name and the other finds it taken. The body is kept as it came: JSON.parse reads amounts as
 * binary floats, so take amounts from the text with a decimal library.
 */
function keep(body, reference) {
  const draft = join(given.results, `${randomUUID()}.new`);
  const file = fs.openSync(draft, "wx");
  try {
    fs.writeFileSync(file, body);
    fs.fsyncSync(file);
    fs.linkSync(draft, join(given.results, `${reference}.json`));
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  } finally {
    fs.closeSync(file);
    fs.unlinkSync(draft);
  }
}

/** The key first; then the body is worth reading; then keep it; then answer. */
function receive(request, response) {
  const answer = (status) => response.writeHead(status, { "Content-Length": "0", Connection: "close" }).end();
  if (request.method !== "POST") return answer(405);
  if (!isOurs(request.headers["x-api-key"])) return answer(401);
  const pieces = [];
  let length = 0;
  request.on("data", (piece) => {
    length += piece.length;
    if (length > BODY_BYTES_MAX) return request.destroy();
    pieces.push(piece);
  });
  request.on("end", () => {
    const body = Buffer.concat(pieces);
    const transaction = transactionIn(body);
    if (transaction === null) return answer(400);
    let isNew;
    try {
      isNew = keep(body, transaction.gatewayReference);
    } catch (error) {
      console.error(error.message);
      return answer(500);
    }
    answer(204);
    console.log(isNew ? "result" : "repeat", transaction.gatewayReference, transaction.status);
    // From here on the result is yours: do the work that follows from it elsewhere, not before the answer.
  });
}

const server = given.certificate
  ? https.createServer({ cert: fs.readFileSync(given.certificate), key: fs.readFileSync(given.key) }, receive)
  : http.createServer(receive);
server.headersTimeout = server.requestTimeout = 10_000; // that a silent sender may hold a connection
server.listen(Number(given.port), given.certificate ? undefined : "127.0.0.1", () =>
  console.log("listening on port", server.address().port),
);
