/** The guard before a tool runs: what it sends, in which order, and what keeps the tool from running. */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "../src/index.js";
import { ARGS, allowing, refusalOf, world } from "./guarding.js";
import { ALLOW, ASK, DENY, KEY, NOW, OPERATION, networkError, problem, reply, serving } from "./support.js";

test("the tool gets the canonical arguments, begun by the decision and settled after it", async () => {
  const { run, seen, ran, paths } = world(allowing());
  assert.equal(await run({ toolCallId: "c-1", turnId: "2", timeoutSeconds: 9 }), "done");
  assert.deepEqual(ran, [ALLOW.arguments]);
  assert.deepEqual(paths(), ["/decide", "/operations/d-1/settle"]);
  const { context, arguments: proposed } = seen[0]?.body ?? {};
  assert.deepEqual(proposed, ARGS);
  assert.deepEqual([context.settles, context.turn_id, context.tool_call_id], [true, "2", "c-1"]);
  assert.equal(context.start.timeout_seconds, 9);
  assert.equal(seen[1]?.body.outcome, "succeeded");
  assert.equal(seen[1]?.body.lease_token, "lease-secret");
});

test("what is declared a read tells nothing, unless the service says that it is none", async () => {
  const read = world(allowing({ authority: "A0" }));
  await read.run({ effect: "read" });
  assert.deepEqual(read.paths(), ["/decide"]);
  assert.equal(read.seen[0]?.body.context.settles, undefined);
  const change = world(allowing());
  await change.run({ effect: "read" });
  assert.deepEqual(change.paths(), ["/decide", "/operations/d-1/start", "/operations/d-1/settle"]);
});

/** @type {[string, Record<string, unknown>, new (...args: any[]) => sdk.CallRefused][]} */
const DENIED = [
  ["by a rule", DENY, sdk.CallDenied],
  [
    "it ran before",
    {
      ...DENY,
      code: "operation.settled",
      operation: { state: "succeeded", settles: true, external_id: "m-1" },
    },
    sdk.AlreadyDone,
  ],
  ["nobody knows", { ...DENY, code: "operation.unknown" }, sdk.OutcomeUnknown],
  ["another try runs", { ...DENY, code: "operation.in_progress" }, sdk.CallInProgress],
  [
    "a person said no",
    { ...DENY, code: "approval.denied", approval: { id: "a", state: "denied" } },
    sdk.ApprovalRefused,
  ],
  ["an ask without an approval", { ...ASK, approval: undefined }, sdk.NoDecision],
  ["an allow without a lease", { ...ALLOW, lease: undefined }, sdk.NoDecision],
  ["an allow without arguments", { ...ALLOW, arguments: undefined }, sdk.NoDecision],
  ["an allow of a dry run", { ...ALLOW, dry_run: true }, sdk.NoDecision],
];

for (const [name, answer, kind] of DENIED) {
  test(`it does not run: ${name}`, async () => {
    const { run, ran } = world(() => answer);
    const refused = await refusalOf(run());
    assert.ok(refused instanceof kind, String(refused));
    assert.equal(refused.tool, "fs/file_edit");
    assert.match(refused.forModel(), /`fs\/file_edit`/);
    assert.deepEqual(ran, []);
  });
}

test("a refusal has words for a model", async () => {
  const { run } = world(() => ({ ...DENY, errors: [{ pointer: "/path", message: "is no path." }] }));
  assert.equal(
    (await refusalOf(run())).forModel(),
    "`fs/file_edit` did not run: secrets are not for agents. is no path (at `/path`). " +
      "Rule `protect-secrets`: Secrets stay. What you may do: change the arguments, or leave it. " +
      "The same call again is not answered otherwise.",
  );
});

test("an approval is waited for, and the same call sent again", async () => {
  const { run, seen, ran } = world(({ path, body }, count) => {
    if (path.startsWith("/approvals/")) return { id: "a-1", state: "approved" };
    if (path === "/decide") return count === 1 ? ASK : ALLOW;
    return { ...OPERATION, state: body.outcome };
  });
  await run();
  assert.equal(ran.length, 1);
  const [first, second] = seen.filter(({ path }) => path === "/decide");
  assert.deepEqual(first?.body, second?.body);
});

test("a no, no answer, and no wait are told apart", async () => {
  const answers =
    (/** @type {string} */ state) =>
    (/** @type {import("./support.js").Seen} */ { path }) =>
      path === "/decide" ? ASK : { id: "a-1", state, denial: { reason: "not on a Friday" } };
  const no = await refusalOf(world(answers("denied")).run());
  assert.ok(no instanceof sdk.ApprovalRefused);
  assert.match(no.forModel(), /not on a Friday/);
  const expired = await refusalOf(world(answers("expired")).run());
  assert.equal(expired.code, "approval.expired");
  assert.ok(
    (await refusalOf(world(answers("pending"), { approvalSeconds: 0.05 }).run())) instanceof
      sdk.ApprovalPending,
  );
  const { run, paths } = world(answers("approved"), { onPending: "throw" });
  const pending = await refusalOf(run());
  assert.ok(pending instanceof sdk.ApprovalPending && pending.retryUnchanged);
  assert.deepEqual(paths(), ["/decide"]);
});

test("only a named read fails open, only without a transport, and it is logged", async () => {
  const dead = () => Promise.reject(networkError("ECONNREFUSED"));
  const named = { failOpenFor: ["fs/file_edit"] };
  const open = world(dead, named);
  assert.equal(await open.run({ effect: "read" }), "done");
  assert.deepEqual(open.ran, [ARGS]);
  assert.match(open.logged.join(), /no decision on `fs\/file_edit` \(Unreachable\)/);
  /** @type {[() => unknown, Partial<sdk.GuardOptions>, sdk.CallSettings][]} */
  const closed = [
    [dead, named, { effect: "change" }],
    [dead, named, {}],
    [dead, { failOpenFor: ["fs/file_read", "*"] }, { effect: "read" }],
    [dead, {}, { effect: "read" }],
    [() => problem(503, "store.unavailable"), named, { effect: "read" }],
    [() => Promise.reject(networkError("UND_ERR_SOCKET")), named, { effect: "read" }],
    [() => reply("<html>", { type: "text/html" }), named, { effect: "read" }],
    [() => DENY, named, { effect: "read" }],
    [dead, named, { effect: "read", signal: AbortSignal.abort() }],
  ];
  for (const [answer, options, settings] of closed) {
    const { run, ran } = world(answer, options);
    await refusalOf(run(settings));
    assert.deepEqual(ran, []);
  }
  assert.throws(() => world(dead, { failOpenFor: "fs/file_edit" }), TypeError);
});

test("an ask is an answer: what was asked for does not fail open afterwards", async () => {
  const { run, ran } = world(
    ({ path }, count) => {
      if (path.startsWith("/approvals/")) return { id: "a-1", state: "approved" };
      return count === 1 ? ASK : Promise.reject(networkError("ECONNREFUSED"));
    },
    { failOpenFor: ["fs/file_edit"] },
  );
  assert.ok((await refusalOf(run({ effect: "read" }))) instanceof sdk.NoDecision);
  assert.deepEqual(ran, []);
});

test("what a decision shows to be more than a read does not fail open again", async () => {
  const connect = { ...ALLOW, authority: "A0", accesses: [{ ...ALLOW.accesses[0], verb: "connect" }] };
  for (const answer of [ALLOW, connect]) {
    let isDead = false;
    const { run, ran, logged } = world(
      (seen) => (isDead ? Promise.reject(networkError("ECONNREFUSED")) : allowing(answer)(seen)),
      { failOpenFor: ["fs/file_edit"] },
    );
    await run({ effect: "read" });
    isDead = true;
    await refusalOf(run({ effect: "read" }));
    assert.equal(ran.length, 1);
    assert.match(logged.join(), /does not fail open any more/);
  }
});

test("obligations that the guard does not meet refuse", async () => {
  for (const obligation of [
    "snapshot_before",
    "filter_results",
    "log_locally",
    "probe_before",
    "verify_identity",
  ]) {
    const { run, ran, seen } = world(allowing({ obligations: [obligation] }));
    assert.ok((await refusalOf(run())) instanceof sdk.ObligationUnmet);
    assert.deepEqual(ran, []);
    assert.equal(seen.at(-1)?.body.outcome, "failed_retryable");
  }
  await world(allowing({ obligations: ["settle_before_retry"] })).run();
  const untold = world(allowing({ obligations: ["settle_before_retry"], authority: "A0" }));
  assert.ok((await refusalOf(untold.run({ effect: "read" }))) instanceof sdk.ObligationUnmet);
  await world(allowing({ obligations: ["verify_identity"] })).run({ resolve: () => ({}) });
});

test("what has changed since it was decided on does not run", async () => {
  const claim = (/** @type {unknown} */ inode) => ({
    "/path": { path: "/workspace/app.py", device: 1, inode },
  });
  const same = world(allowing());
  await same.run({ resolve: () => claim(7), context: { resolved: { "/other": { path: "/x" } } } });
  assert.deepEqual(same.paths(), ["/decide", "/operations/d-1/start", "/operations/d-1/settle"]);
  assert.deepEqual(same.seen[0]?.body.context.resolved, { "/other": { path: "/x" }, ...claim(7) });
  assert.equal(same.seen[0]?.body.context.start, undefined);
  for (const second of [claim(8), {}, null, new Error("gone")]) {
    const { run, ran, seen } = world(allowing());
    const found = [claim(7), second];
    const resolve = () => {
      const next = found.shift();
      if (next instanceof Error) throw next;
      return /** @type {any} */ (next);
    };
    assert.ok((await refusalOf(run({ resolve }))) instanceof sdk.IdentityRefused);
    assert.deepEqual(ran, []);
    assert.equal(seen.at(-1)?.body.outcome, "failed_retryable");
  }
  const huge = world(allowing());
  assert.ok((await refusalOf(huge.run({ resolve: () => claim(2 ** 60) }))) instanceof sdk.NoDecision);
  assert.deepEqual(huge.seen, []);
});

test("what must not begin does not run", async () => {
  /** @type {[Response, new (...args: any[]) => sdk.CallRefused][]} */
  const cases = [
    [problem(409, "operation.cancel_requested"), sdk.StartRefused],
    [problem(409, "operation.in_progress"), sdk.CallInProgress],
    [problem(503, "store.unavailable"), sdk.NoDecision],
  ];
  for (const [answer, kind] of cases) {
    const { run, ran } = world(({ path }) => (path === "/decide" ? ALLOW : answer.clone()));
    assert.ok((await refusalOf(run({ resolve: () => ({}) }))) instanceof kind);
    assert.deepEqual(ran, []);
  }
});

test("an allow that runs out while it is being begun does not run", async () => {
  let now = NOW;
  const { fetch } = serving(({ path }) => {
    if (path.endsWith("/start")) now = new Date("2026-11-30T12:02:00Z");
    return path === "/decide" ? ALLOW : OPERATION;
  });
  const guard = new sdk.Guard(new sdk.Client("http://h", { apiKey: KEY, fetch, clock: () => now }), {
    subject: { agent: "a" },
  });
  const run = guard.call("fs", "file_edit", ARGS, { resolve: () => ({}) }, () => assert.fail("it ran"));
  assert.ok((await refusalOf(run)) instanceof sdk.NoDecision);
});

test("what the caller does to its arguments meanwhile changes nothing", async () => {
  const args = { path: "/a" };
  const { guard, seen } = world(({ path }, count) => {
    args.path = "/etc/passwd";
    if (path.startsWith("/approvals/")) return { id: "a-1", state: "approved" };
    if (path === "/decide") return count === 1 ? ASK : ALLOW;
    return OPERATION;
  });
  await guard.call("fs", "file_edit", args, {}, () => {});
  for (const { body } of seen.filter(({ path }) => path === "/decide"))
    assert.equal(body.arguments.path, "/a");
});

test("arguments that are no JSON do not run, also where the tool may fail open", async () => {
  const { guard, seen } = world(() => ALLOW, { failOpenFor: ["fs/file_edit"] });
  for (const amount of [2 ** 53, NaN, 1n]) {
    const call = guard.call("fs", "file_edit", { amount }, { effect: "read" }, () => assert.fail("it ran"));
    assert.ok((await refusalOf(call)) instanceof sdk.NoDecision);
  }
  assert.deepEqual(seen, []);
});

test("capability and proof are of each request", async () => {
  /** @type {sdk.DecideRequest[]} */
  const asked = [];
  const { run, seen } = world(allowing(), {
    present: async (request) => {
      asked.push(request);
      return { capability: ["root"], proof: "p" };
    },
  });
  await run();
  assert.equal(asked[0]?.proof, undefined);
  assert.deepEqual([seen[0]?.body.capability, seen[0]?.body.proof], [["root"], "p"]);
});

test("what is said of a call goes before what is said of its tool, and that before the guard's", async () => {
  const { guard, seen } = world(allowing(), { context: { cwd: "/w", sandbox_root: "/w" }, traceId: "t-0" });
  const turn = guard.with({ turnId: "7", provenance: { "/path": { source: "user" } } });
  const edit = turn.tool("fs", "file_edit", { context: { cwd: "/w/a" } }, () => 1);
  assert.equal(
    await edit(ARGS, {
      toolCallId: "c-9",
      provenance: (args) => ({ "/path": { source: String(args.path) } }),
    }),
    1,
  );
  const { context, provenance } = seen[0]?.body ?? {};
  assert.deepEqual([context.trace_id, context.turn_id, context.tool_call_id], ["t-0", "7", "c-9"]);
  assert.deepEqual([context.cwd, context.sandbox_root], ["/w/a", "/w"]);
  assert.deepEqual(provenance, { "/path": { source: ARGS.path } });
  // @ts-expect-error a misspelt word
  assert.throws(() => guard.tool("fs", "file_edit", { effect: "reads" }, () => 1), TypeError);
});
