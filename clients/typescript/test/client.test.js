/** The client, with a `fetch` of the tests: nothing but a live allow is an allow. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { requestDigest } from "../src/digests.js";
import * as sdk from "../src/index.js";
import {
  ALLOW,
  ASK,
  DENY,
  IDS,
  KEY,
  NOW,
  OPERATION,
  REQUEST,
  networkError,
  problem,
  reply,
  serving,
  silence,
} from "./support.js";

const { Client } = sdk;

/**
 * @param {Parameters<typeof serving>[0]} answer
 * @param {Partial<sdk.ClientOptions>} [options]
 */
function clientOf(answer, options = {}) {
  const { fetch, seen } = serving(answer);
  const client = new Client("http://service.example/base/", {
    apiKey: KEY,
    fetch,
    clock: () => NOW,
    ...options,
  });
  return { client, seen };
}

/**
 * @param {unknown} answer
 * @param {sdk.DecideRequest} [request]
 */
async function decided(answer, request = REQUEST) {
  return clientOf(() => answer).client.decide(request);
}

test("an allow is read whole", async () => {
  const { client, seen } = clientOf(() => ({
    ...ALLOW,
    ticket: "ticket-secret",
    obligations: ["snapshot_before"],
  }));
  const decision = await client.decide({ ...REQUEST, capability: ["eyJ"] });
  assert.equal(decision.allowed, true);
  assert.equal(decision.effect, sdk.Effect.ALLOW);
  assert.deepEqual(decision.arguments, ALLOW.arguments);
  assert.deepEqual(decision.obligations, [sdk.Obligation.SNAPSHOT_BEFORE]);
  assert.equal(decision.expiresAt?.toISOString(), "2026-11-30T12:01:00.250Z");
  assert.equal(decision.accesses[0]?.uri, "file:///workspace/app.py");
  assert.equal(decision.matched[0]?.line, 4);
  assert.equal(decision.lease?.token, "lease-secret");
  assert.equal(decision.ticket, "ticket-secret");
  const [sent] = seen;
  assert.equal(sent?.path, "/base/decide");
  assert.equal(sent?.init.redirect, "manual");
  assert.equal(/** @type {Headers} */ (sent?.init.headers).get("authorization"), `Bearer ${KEY}`);
});

test("no secret of an allow is printed", async () => {
  const decision = await decided({ ...ALLOW, ticket: "ticket-secret" });
  for (const printed of [inspect(decision, { depth: 9, showHidden: true }), JSON.stringify(decision)]) {
    assert.doesNotMatch(printed, /lease-secret|ticket-secret/);
  }
});

test("a deny and an ask are answers", async () => {
  const deny = await decided(DENY);
  assert.equal(deny.allowed, false);
  assert.deepEqual(
    [deny.code, deny.next, deny.message],
    ["policy.forbid", ["change_arguments", "stop"], DENY.message],
  );
  const ask = await decided(ASK);
  assert.equal(ask.allowed, false);
  assert.equal(ask.approval?.id, "a-1");
});

test("a dry run is never an allow", async () => {
  const request = { ...REQUEST, dry_run: true };
  assert.equal((await decided({ ...ALLOW, dry_run: true }, request)).allowed, false);
  await assert.rejects(decided(ALLOW, request), sdk.MalformedAnswer);
});

/** @type {[string, Record<string, unknown>][]} */
const CONTRADICTIONS = [
  ["no fingerprint", { fingerprint: undefined }],
  ["no expiry", { expires_at: undefined }],
  ["expired", { expires_at: "2026-11-30T12:00:00Z" }],
  ["expired by an offset", { expires_at: "2026-11-30T13:00:00+02:00" }],
  ["no date of the calendar", { expires_at: "2027-02-30T12:00:00Z" }],
  ["a leap second", { expires_at: "2027-06-30T23:59:60Z" }],
  ["hour 24", { expires_at: "2027-06-30T24:00:00Z" }],
  ["no zone", { expires_at: "2027-06-30T12:00:00" }],
  ["a number for a date", { expires_at: 1_900_000_000 }],
  ["an access that is denied", { accesses: [{ ...ALLOW.accesses[0], effect: "deny" }] }],
  ["an access without an effect", { accesses: [{ ...ALLOW.accesses[0], effect: undefined }] }],
  ["an unknown effect", { effect: "allowed" }],
  ["an effect of a prototype", { effect: "constructor" }],
  ["an unknown obligation", { obligations: ["dance"] }],
  ["an obligation that is no text", { obligations: [7] }],
  ["no rules", { matched: undefined }],
  ["no id", { decision_id: "" }],
  ["arguments that are a list", { arguments: [] }],
  ["a lease without a token", { lease: { expires_at: ALLOW.expires_at } }],
  ["an operation in an unknown state", { operation: { state: "resting", settles: true } }],
  ["another request", { request_digest: "sha256:00" }],
  ["no request", { request_digest: null }],
];

for (const [name, change] of CONTRADICTIONS) {
  test(`an allow that cannot be believed: ${name}`, async () => {
    await assert.rejects(decided({ ...ALLOW, ...change }), sdk.MalformedAnswer);
  });
}

/** What would be believed, if it came as an answer. */
const WHOLE = { ...ALLOW, request_digest: await requestDigest(REQUEST) };

/** @type {[string, () => Response][]} */
const NO_ANSWERS = [
  [
    "a redirect",
    () => new Response(null, { status: 302, headers: { location: "http://elsewhere.example" } }),
  ],
  ["html", () => reply("<html>", { type: "text/html" })],
  ["an allow of another media type", () => reply(WHOLE, { type: "text/json" })],
  ["a duplicate name", () => reply('{"effect":"deny","effect":"allow"}')],
  ["an integer that would be rounded", () => reply('{"arguments":{"n":9007199254740993}}')],
  ["cut off", () => reply('{"effect":"allow"')],
  ["empty", () => reply("")],
  [
    "bad utf-8",
    () => new Response(new Uint8Array([34, 255, 34]), { headers: { "content-type": "application/json" } }),
  ],
  ["compressed", () => reply(WHOLE, { headers: { "content-encoding": "gzip" } })],
  ["a list", () => reply([WHOLE])],
  ["null", () => reply("null")],
  ["a refusal without a code", () => reply({}, { status: 403 })],
  ["status 204", () => new Response(null, { status: 204 })],
  ["too long", () => reply(`"${"a".repeat(4 * 1024 * 1024)}"`)],
];

for (const [name, answer] of NO_ANSWERS) {
  test(`no answer: ${name}`, async () => {
    await assert.rejects(decided(answer()), sdk.MalformedAnswer);
  });
}

test("a redirect that a browser hides is no answer", async () => {
  const hidden = Object.defineProperty(new Response(), "type", { value: "opaqueredirect" });
  await assert.rejects(decided(hidden), /is a redirect/);
});

test("the same answer, unharmed, is believed", async () => {
  assert.equal((await decided(reply(WHOLE))).allowed, true);
});

test("problems are typed", async () => {
  await assert.rejects(decided(problem(403, "auth.role", { state: "x" })), (error) => {
    assert.ok(error instanceof sdk.RequestRefused);
    assert.deepEqual(
      [error.status, error.code, error.detail, error.state],
      [403, "auth.role", "because", "x"],
    );
    return true;
  });
  await assert.rejects(decided(problem(503, "store.unavailable")), (error) => {
    assert.ok(error instanceof sdk.ServerFailure);
    assert.deepEqual([error.status, error.code], [503, "store.unavailable"]);
    return true;
  });
});

test("a request that cannot be sent as it is, is not sent", async () => {
  /** @type {unknown[]} */
  const values = [
    NaN,
    Infinity,
    2 ** 53,
    -(2 ** 60),
    5n,
    "\ud800",
    new Date(),
    new Map(),
    [undefined],
    () => 1,
  ];
  for (const value of values) {
    const { client, seen } = clientOf(() => ALLOW);
    await assert.rejects(client.decide({ ...REQUEST, arguments: { value } }), sdk.RequestNotEncodable);
    assert.equal(seen.length, 0);
  }
  /** @type {Record<string, unknown>} */
  const cycle = {};
  cycle.self = cycle;
  await assert.rejects(
    clientOf(() => ALLOW).client.decide({ ...REQUEST, arguments: cycle }),
    sdk.RequestNotEncodable,
  );
});

test("a dead network is told from an answer that was cut short", async () => {
  const dead = clientOf(() => Promise.reject(networkError("ECONNREFUSED")));
  await assert.rejects(dead.client.decide(REQUEST), sdk.Unreachable);
  for (const code of ["UND_ERR_SOCKET", "HPE_INVALID_CONSTANT"]) {
    const cut = clientOf(() => Promise.reject(networkError(code)));
    await assert.rejects(
      cut.client.decide(REQUEST),
      (error) => error instanceof sdk.MalformedAnswer && error.brokeOff,
    );
  }
  const halfway = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{"effect":'));
      controller.error(new TypeError("terminated"));
    },
  });
  const answer = new Response(halfway, { headers: { "content-type": "application/json" } });
  await assert.rejects(decided(answer), (error) => error instanceof sdk.MalformedAnswer && error.brokeOff);
});

test("the deadline ends the wait, also of a fetch that does not look at its signal", async () => {
  for (const answer of [(/** @type {any} */ { init }) => silence(init.signal), () => new Promise(() => {})]) {
    const { client } = clientOf(answer, { deadlineSeconds: 0.05 });
    await assert.rejects(client.decide(REQUEST), sdk.Timeout);
  }
  const slow = new Response(new ReadableStream({}), { headers: { "content-type": "application/json" } });
  const { client } = clientOf(() => slow, { deadlineSeconds: 0.05 });
  await assert.rejects(
    client.decide(REQUEST),
    (error) => error instanceof sdk.MalformedAnswer && error.brokeOff,
  );
});

test("the caller's own signal ends the wait", async () => {
  const { client, seen } = clientOf(({ init }) => silence(init.signal));
  const stop = new AbortController();
  const asked = client.decide({ ...REQUEST, context: IDS }, { signal: stop.signal });
  setImmediate(() => stop.abort());
  await assert.rejects(asked, sdk.Aborted);
  await assert.rejects(client.decide(REQUEST, { signal: AbortSignal.abort() }), sdk.Aborted);
  assert.ok(seen.length <= 1);
});

test("what has all its ids is sent again, unchanged, and nothing else is", async () => {
  /** @type {[Partial<sdk.DecideRequest>, number][]} */
  const cases = [
    [{ context: IDS }, 3],
    [{ dry_run: true }, 3],
    [{}, 1],
    [{ context: { ...IDS, turn_id: "" } }, 1],
    [{ context: IDS, proof: "eyJ" }, 1],
  ];
  for (const [more, tries] of cases) {
    const { client, seen } = clientOf(() => Promise.reject(networkError("ECONNREFUSED")));
    await assert.rejects(client.decide({ ...REQUEST, ...more }), sdk.Unreachable);
    assert.equal(seen.length, tries);
    assert.equal(new Set(seen.map(({ init }) => init.body)).size, 1);
  }
});

test("a 503 is asked again only where it says that this may help", async () => {
  for (const [retry_unchanged, tries] of /** @type {const} */ ([
    [true, 3],
    [false, 1],
  ])) {
    const { client, seen } = clientOf(() => problem(503, "store.unavailable", { retry_unchanged }));
    await assert.rejects(client.decide({ ...REQUEST, context: IDS }), sdk.ServerFailure);
    assert.equal(seen.length, tries);
  }
  const { client } = clientOf((_, count) =>
    count === 1 ? problem(503, "x", { retry_unchanged: true }) : ALLOW,
  );
  assert.equal((await client.decide({ ...REQUEST, context: IDS })).allowed, true);
});

test("what was answered outlasts what was not", async () => {
  const { client } = clientOf((_, count) =>
    Promise.reject(networkError(count === 1 ? "UND_ERR_SOCKET" : "ECONNREFUSED")),
  );
  await assert.rejects(client.decide({ ...REQUEST, context: IDS }), sdk.MalformedAnswer);
});

test("a batch has an answer in each place", async () => {
  const requests = [REQUEST, { ...REQUEST, arguments: {} }, REQUEST];
  const digests = await Promise.all(requests.map(requestDigest));
  const failed = { problem: { status: 503, code: "store.unavailable" } };
  const allow = (/** @type {number} */ place) => ({ ...ALLOW, request_digest: digests[place] });
  const { client, seen } = clientOf(() => ({
    decisions: [allow(0), failed, { ...allow(2), effect: "yes" }],
  }));
  const [first, second, third] = await client.decideBatch(requests);
  assert.ok(first instanceof sdk.Decision && first.allowed);
  assert.ok(second instanceof sdk.ServerFailure);
  assert.ok(third instanceof sdk.MalformedAnswer);
  assert.equal(seen[0]?.path, "/base/decide/batch");
  const swapped = await clientOf(() => ({ decisions: [allow(1), allow(0), allow(2)] })).client.decideBatch(
    requests,
  );
  assert.ok(swapped[0] instanceof sdk.MalformedAnswer && swapped[1] instanceof sdk.MalformedAnswer);
  for (const decisions of [[allow(0)], {}, null]) {
    await assert.rejects(clientOf(() => ({ decisions })).client.decideBatch(requests), sdk.MalformedAnswer);
  }
});

test("operations are told and asked about", async () => {
  const { client, seen } = clientOf(() => OPERATION);
  await client.operation("d-1");
  await client.start("d-1", { leaseToken: "l", attempt: "a", timeoutSeconds: 5 });
  await client.settle("d-1", { leaseToken: "l", outcome: "succeeded", externalId: "e" });
  await client.resolve("d-1", { outcome: "not_executed", reason: "looked" });
  const found = await client.cancelOperation("d-1", { reason: "r" });
  assert.equal(found.state, sdk.OperationState.SUCCEEDED);
  assert.deepEqual(
    seen.map(({ method, path, body }) => [method, path, body]),
    [
      ["GET", "/base/operations/d-1", null],
      ["POST", "/base/operations/d-1/start", { lease_token: "l", attempt: "a", timeout_seconds: 5 }],
      ["POST", "/base/operations/d-1/settle", { lease_token: "l", outcome: "succeeded", external_id: "e" }],
      ["POST", "/base/operations/d-1/resolve", { outcome: "not_executed", reason: "looked" }],
      ["POST", "/base/operations/d-1/cancel", { reason: "r" }],
    ],
  );
  await assert.rejects(client.operation("d-2"), sdk.MalformedAnswer);
  for (const id of ["", ".", "..", "\ud800"])
    await assert.rejects(client.operation(id), sdk.RequestNotEncodable);
  // @ts-expect-error there is no such outcome
  await assert.rejects(client.settle("d-1", { leaseToken: "l", outcome: "done" }), TypeError);
});

test("an id is one segment of the path", async () => {
  const { client, seen } = clientOf(() => ({ ...OPERATION, decision_id: "a/../b?c" }));
  await client.operation("a/../b?c");
  assert.equal(seen[0]?.path, "/base/operations/a%2F..%2Fb%3Fc");
});

test("an approval is waited for, through a restart of the service", async () => {
  const states = [
    problem(503, "x"),
    { state: "pending" },
    problem(429, "limit.waits"),
    { state: "approved" },
  ];
  const { client, seen } = clientOf((_, count) => {
    const found = states[count - 1] ?? assert.fail("asked again after the answer");
    return found instanceof Response ? found : { id: "a-1", version: 1, ...found };
  });
  const status = await client.waitForApproval("a-1", { deadlineSeconds: 20 });
  assert.equal(status.state, sdk.ApprovalState.APPROVED);
  assert.match(seen[0]?.path ?? "", /^\/base\/approvals\/a-1\?wait=\d+$/);
  const mute = clientOf(() => problem(404, "approval.unknown"));
  await assert.rejects(mute.client.waitForApproval("a-1", { deadlineSeconds: 5 }), sdk.RequestRefused);
  const pending = clientOf(() => ({ id: "a-1", state: "pending" }));
  assert.equal((await pending.client.waitForApproval("a-1", { deadlineSeconds: 0 })).state, "pending");
  await assert.rejects(
    clientOf(() => ({ id: "a-2", state: "approved" })).client.approval("a-1"),
    sdk.MalformedAnswer,
  );
});

test("a client is made of what can be used", () => {
  for (const url of ["", "/decide", "ftp://h", "http://u:p@h", "http://h?q", "http://h#f"]) {
    assert.throws(() => new Client(url, { apiKey: KEY }), TypeError);
  }
  for (const deadlineSeconds of [0, -1, NaN, Infinity]) {
    assert.throws(() => new Client("http://h", { apiKey: KEY, deadlineSeconds }), RangeError);
  }
  assert.throws(() => new Client("http://h", { apiKey: KEY, attempts: 0 }), RangeError);
  assert.throws(
    () => new Client("http://h", { apiKey: "secret\nkey" }),
    (error) => error instanceof TypeError && !inspect(error).includes("secret"),
  );
  assert.doesNotMatch(
    inspect(new Client("http://h", { apiKey: KEY }), { showHidden: true, depth: 9 }),
    /key-for-tests/,
  );
});

test("the surface is this one", async () => {
  const names = [
    "Aborted AlreadyDone ApprovalPending ApprovalRefused ApprovalState CallDenied CallInProgress",
    "CallRefused Client Decision DecisionUnavailable Effect Guard IdentityRefused Lease MalformedAnswer",
    "NoDecision Obligation ObligationUnmet OperationState Outcome OutcomeUnknown Permitted",
    "RequestNotEncodable RequestRefused ServerFailure StartRefused Timeout Unreachable",
  ];
  assert.deepEqual(Object.keys(sdk).sort(), names.join(" ").split(" "));
  const capabilities = [
    "BadKey NOTHING_REVOKED NotCanonical PublicKey Reason Refusal Refused SigningKey argumentsDigest",
    "canonicalJson checkAccess checkCall checkLine explainLine generateKey issueRoot narrow newJti",
    "nowSeconds parseEntries parseRevocations prove publicKey publishedKeys recheck requestDigest",
    "signingKeyFromJwk verifyChain verifyProof verifyStructure verifyTicket widening",
  ];
  const found = Object.keys(await import("@authz/client/capabilities")).sort();
  assert.deepEqual(found, capabilities.join(" ").split(" "));
  assert.equal((await import("@authz/client")).Client, Client);
});
