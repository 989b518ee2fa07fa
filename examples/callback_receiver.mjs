// A receiver of result callbacks in plain Node: it checks the key and stores each result once.
//
//     API_KEY=... node callback_receiver.mjs --port 9443 --certificate cert.pem --key key.pem --results results
//
// `API_KEY` is your key; while you change keys it has the old and the new one, separated by a space.
// Without a certificate the receiver serves plain HTTP on this machine only, behind a web server. It
// stores each result as a file `results/<gatewayReference>.json`, and recognises a repeated callback
// by that file. A QR code that is sent to the same URL is stored as `<gatewayReference>.qr.json`.

import { createHash, randomUUID, timingSafeEqual } from "node:crypto";
import * as fs from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { parseArgs } from "node:util";

const BODY_BYTES_MAX = 1024 * 1024; // transaction objects are smaller
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

const { values: settings } = parseArgs({
  options: {
    port: { type: "string", default: "9443" }, // 0 picks a free one
    certificate: { type: "string" }, // certificate chain (PEM)
    key: { type: "string" }, // its private key (PEM)
    results: { type: "string", default: "results" }, // where results go
  },
});

const keys = (process.env.API_KEY ?? "").split(/\s+/).filter(Boolean);
if (keys.length === 0) {
  console.error("Set API_KEY to your key: without it every callback would be rejected.");
  process.exit(1);
}
fs.mkdirSync(settings.results, { recursive: true });

const digest = (text) => createHash("sha256").update(text).digest();

/** Whether a received key is one of ours, in constant time (digests have equal lengths). */
function isOurs(header) {
  const digested = digest(header ?? "");
  return keys.map((key) => timingSafeEqual(digested, digest(key))).includes(true);
}

/**
 * The result or the QR code in a body, or null. A payment by QR code has both, under one
 * gatewayReference; only the result has a status.
 */
function contentOf(body) {
  try {
    const found = JSON.parse(body.toString("utf8"));
    if (typeof found?.gatewayReference !== "string" || !ULID.test(found.gatewayReference)) return null;
    return ("status" in found ? ["success", "failed"].includes(found.status) : "qrImage" in found) ? found : null;
  } catch {
    return null;
  }
}

/**
 * Store a body completely or not at all; return false if it was stored before. Of two callbacks at
 * the same time, `link` succeeds for only one. The body is stored unchanged: JSON.parse reads amounts
 * as binary floats, so read amounts from the text with a decimal library.
 */
function store(body, name) {
  const draft = join(settings.results, `${randomUUID()}.new`);
  const file = fs.openSync(draft, "wx");
  try {
    fs.writeFileSync(file, body);
    fs.fsyncSync(file);
    fs.linkSync(draft, join(settings.results, name));
    return true;
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  } finally {
    fs.closeSync(file);
    fs.unlinkSync(draft);
  }
}

/** Check the key, read the body, store it, then answer. */
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
    const content = contentOf(body);
    if (content === null) return answer(400);
    const isResult = "status" in content;
    let isNew;
    try {
      isNew = store(body, `${content.gatewayReference}${isResult ? ".json" : ".qr.json"}`);
    } catch (error) {
      console.error(error.message);
      return answer(500);
    }
    answer(204);
    const word = !isNew ? "repeat" : isResult ? "result" : "code";
    console.log(word, content.gatewayReference, content.status);
    // The result is stored: do your own work with it in another place, not before the answer.
  });
}

const server = settings.certificate
  ? https.createServer({ cert: fs.readFileSync(settings.certificate), key: fs.readFileSync(settings.key) }, receive)
  : http.createServer(receive);
server.headersTimeout = server.requestTimeout = 10_000; // then a silent connection is closed
server.listen(Number(settings.port), settings.certificate ? undefined : "127.0.0.1", () =>
  console.log("listening on port", server.address().port),
);
