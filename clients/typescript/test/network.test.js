/** The platform's own `fetch` against servers that fail in every way that a network has. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import * as sdk from "../src/index.js";
import { requestDigest } from "../src/digests.js";
import { ALLOW, KEY, NOW, REQUEST } from "./support.js";

const body = JSON.stringify({ ...ALLOW, request_digest: await requestDigest(REQUEST) });

/**
 * A server that does one thing with each connection once a request has come; `count` is how many came.
 *
 * @param {import("node:test").TestContext} context
 * @param {(socket: import("node:net").Socket) => void} act
 */
async function serve(context, act) {
  const seen = { count: 0, port: 0 };
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      seen.count += 1;
      act(socket);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => server.close());
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  seen.port = address.port;
  return seen;
}

/**
 * @param {number} port
 * @param {Partial<sdk.ClientOptions>} [options]
 */
function clientAt(port, options = {}) {
  return new sdk.Client(`http://127.0.0.1:${port}`, {
    apiKey: KEY,
    clock: () => NOW,
    attempts: 1,
    ...options,
  });
}

/** @param {string} head @param {string | Buffer} [content] @param {number} [length] */
function http(head, content = "", length = Buffer.byteLength(content)) {
  const lines = `HTTP/1.1 ${head}\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n`;
  return Buffer.concat([Buffer.from(lines), Buffer.from(content)]);
}

const JSON_HEAD = "200 OK\r\nContent-Type: application/json";

test("an allow comes through", async (context) => {
  const { port } = await serve(context, (socket) => socket.end(http(JSON_HEAD, body)));
  assert.equal((await clientAt(port).decide(REQUEST)).allowed, true);
});

/** @type {[string, (socket: import("node:net").Socket) => void][]} */
const BROKEN = [
  ["hung up without a word", (socket) => socket.end()],
  ["no HTTP", (socket) => socket.end("SSH-2.0-OpenSSH_9.2\r\n\r\n")],
  ["cut off in the body", (socket) => socket.end(http(JSON_HEAD, body.slice(0, 40), body.length))],
  ["cut off in the head", (socket) => socket.end("HTTP/1.1 200 OK\r\nContent-Ty")],
];

for (const [name, act] of BROKEN) {
  test(`broke off: ${name}`, async (context) => {
    const { port } = await serve(context, act);
    await assert.rejects(clientAt(port).decide(REQUEST), (error) => {
      assert.ok(error instanceof sdk.MalformedAnswer, String(error));
      assert.equal(error.brokeOff, true);
      return true;
    });
  });
}

test("nobody is there", async (context) => {
  const { port } = await serve(context, () => {});
  const gone = createServer().listen(0, "127.0.0.1");
  await once(gone, "listening");
  const { port: free } = /** @type {import("node:net").AddressInfo} */ (gone.address());
  gone.close();
  await once(gone, "close");
  await assert.rejects(clientAt(free).decide(REQUEST), sdk.Unreachable);
  await assert.rejects(clientAt(port, { deadlineSeconds: 0.2 }).decide(REQUEST), sdk.Timeout);
});

test("a redirect is not followed: its end is not asked, and does not get the key", async (context) => {
  const end = await serve(context, (socket) => socket.end(http(JSON_HEAD, body)));
  for (const status of ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"]) {
    const { port } = await serve(context, (socket) =>
      socket.end(http(`${status}\r\nLocation: http://127.0.0.1:${end.port}/decide`)),
    );
    await assert.rejects(clientAt(port).decide(REQUEST), sdk.MalformedAnswer);
  }
  assert.equal(end.count, 0);
});

test("a compressed answer is not unpacked", async (context) => {
  const { port } = await serve(context, (socket) => {
    socket.end(http(`${JSON_HEAD}\r\nContent-Encoding: gzip`, gzipSync(body)));
  });
  await assert.rejects(clientAt(port).decide(REQUEST), sdk.MalformedAnswer);
});

test("an endless answer is cut off", async (context) => {
  const { port } = await serve(context, (socket) => {
    socket.write(`HTTP/1.1 ${JSON_HEAD}\r\n\r\n"`);
    const chunk = Buffer.alloc(1 << 16, "a");
    const more = () => {
      while (!socket.destroyed && socket.write(chunk));
    };
    socket.on("drain", more);
    more();
  });
  await assert.rejects(clientAt(port).decide(REQUEST), /longer than/);
});

test("of a lost answer the same request is asked again", async (context) => {
  const context_ = { trace_id: "t", turn_id: "1", tool_call_id: "c" };
  const request = { ...REQUEST, context: context_ };
  const answer = JSON.stringify({ ...ALLOW, request_digest: await requestDigest(request) });
  let count = 0;
  const { port } = await serve(context, (socket) => {
    count += 1;
    socket.end(count < 3 ? "" : http(JSON_HEAD, answer));
  });
  assert.equal((await clientAt(port, { attempts: 3 }).decide(request)).allowed, true);
  assert.equal(count, 3);
});
