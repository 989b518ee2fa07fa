// Node's own client of HTTP/2: it opens all of its streams at once, before it knows the limit.
import http2 from "node:http2";

const session = http2.connect(process.env.API_URL);

function ask() {
  return new Promise((resolve) => {
    const request = session.request({ ":path": "/healthz" });
    let result;
    request.on("response", (headers) => (result = headers[":status"]));
    request.on("error", () => (result = `error ${request.rstCode}`));
    request.on("close", () => resolve(result));
    request.resume();
    request.end();
  });
}

const first = await Promise.all(Array.from({ length: 20 }, ask));
const again = await Promise.all(Array.from({ length: 20 }, ask));
session.close();
console.log(JSON.stringify({ first, again }));
