/**
 * The real service. `AUTHZ_TEST_URL` and `AUTHZ_TEST_KEY` say where it is; whoever starts it answers the
 * requests for approvals: yes to the call `pay-yes`, no to `pay-no` ("not on a Friday").
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "../src/index.js";
import { networkError } from "./support.js";

const url = process.env.AUTHZ_TEST_URL ?? "";
const skip = url === "" && "AUTHZ_TEST_URL names no service, so nothing was asked of a real one";
const apiKey = process.env.AUTHZ_TEST_KEY ?? "";
const CONTEXT = { cwd: "/workspace", sandbox_root: "/workspace" };
const client = skip ? null : new sdk.Client(url, { apiKey, deadlineSeconds: 30 });

/** @param {Partial<sdk.GuardOptions>} [options] */
function guarded(options = {}) {
  assert.ok(client);
  const subject = { agent: "coder-1", on_behalf_of: "ada", session: "s-ts" };
  return new sdk.Guard(client, { subject, context: CONTEXT, ...options });
}

/** A tool that notes what it was given. */
function effect() {
  /** @type {object[]} */
  const had = [];
  return {
    had,
    run: (/** @type {object} */ args) => {
      had.push(args);
      return `done ${had.length}`;
    },
  };
}

test("a decision, a batch and a dry run", { skip }, async () => {
  assert.ok(client);
  const request = {
    subject: { agent: "coder-1", on_behalf_of: "ada", session: "s-ts" },
    tool: { server: "fs", name: "file_read" },
    arguments: { path: "/workspace/../workspace/a" },
    context: CONTEXT,
  };
  const decision = await client.decide(request);
  assert.equal(decision.allowed, true, decision.message);
  assert.deepEqual(decision.arguments, { path: "/workspace/a" });
  assert.equal(decision.accesses[0]?.uri, "file:///workspace/a");
  assert.ok(decision.lease && decision.lease.expiresAt > new Date());
  const secret = { ...request, arguments: { path: "/workspace/.secrets/key" } };
  const [first, second] = await client.decideBatch([{ ...request, dry_run: true }, secret]);
  assert.ok(first instanceof sdk.Decision && first.dryRun && !first.allowed);
  assert.ok(second instanceof sdk.Decision);
  assert.deepEqual([second.effect, second.matched[0]?.rule], ["deny", "secrets"]);
});

test("a refusal before a decision is a problem", { skip }, async () => {
  assert.ok(client);
  const tool = { server: "fs", name: "x" };
  const request = { subject: { agent: "a" }, tool, arguments: {}, argumnets: {} };
  const misspelt = client.decide(request);
  await assert.rejects(misspelt, (error) => error instanceof sdk.RequestRefused && error.status === 400);
  const stranger = new sdk.Client(url, { apiKey: "azk_nobody" });
  await assert.rejects(
    stranger.approval("a-1"),
    (error) => error instanceof sdk.RequestRefused && error.status === 401,
  );
  await assert.rejects(
    client.operation("no-such"),
    (error) => error instanceof sdk.RequestRefused && error.status === 404,
  );
});

test("a call runs once with the canonical arguments, and is settled", { skip }, async () => {
  assert.ok(client);
  const guard = guarded();
  const { had, run } = effect();
  /** @type {sdk.Permitted[]} */
  const seen = [];
  const send = guard.tool("bank", "mail_send", { toolCallId: "mail-1" }, (args, permitted) => {
    seen.push(permitted);
    permitted.succeeded({ externalId: "m-1", resultDigest: `sha256:${"a".repeat(64)}` });
    return run(args);
  });
  const args = { to: "ada@example.com", body: "hello" };
  assert.equal(await send(args), "done 1");
  assert.deepEqual(had, [{ to: "ada@example.com", body: "hello", password: "" }]);
  const operation = await client.operation(seen[0]?.decision?.decisionId ?? "");
  assert.deepEqual(
    [operation.state, operation.externalId, operation.tool],
    ["succeeded", "m-1", "bank/mail_send"],
  );
  await assert.rejects(send(args), (error) => {
    assert.ok(error instanceof sdk.AlreadyDone, String(error));
    assert.equal(error.outcome.externalId, "m-1");
    return true;
  });
  await assert.rejects(send({ ...args, body: "another" }), (error) => {
    assert.ok(error instanceof sdk.CallDenied, String(error));
    assert.equal(error.code, "operation.conflict");
    return true;
  });
  assert.equal(had.length, 1);
});

test("an error of what may not run twice leaves it unknown", { skip }, async () => {
  const guard = guarded();
  const settings = { toolCallId: "mail-2" };
  const args = { to: "ada@example.com", body: "hello" };
  const fail = () => Promise.reject(new Error("the line is dead"));
  await assert.rejects(guard.call("bank", "mail_send", args, settings, fail), sdk.OutcomeUnknown);
  const again = guard.call("bank", "mail_send", args, settings, () => assert.fail("it ran"));
  await assert.rejects(again, sdk.OutcomeUnknown);
});

test("of two tries at once one runs", { skip }, async () => {
  const { had, run } = effect();
  /** @type {() => void} */
  let go = () => {};
  const waits = new Promise((resolve) => (go = () => resolve(undefined)));
  const settings = { traceId: "t-two", toolCallId: "mail-3" };
  const args = { to: "ada@example.com", body: "hello" };
  /** @type {() => void} */
  let started = () => {};
  const isRunning = new Promise((resolve) => (started = () => resolve(undefined)));
  const first = guarded().call("bank", "mail_send", args, settings, async (judged) => {
    started();
    await waits;
    return run(judged);
  });
  await isRunning;
  await assert.rejects(guarded().call("bank", "mail_send", args, settings, run), sdk.CallInProgress);
  go();
  assert.equal(await first, "done 1");
  assert.equal(had.length, 1);
});

test("with claims the act is begun after they were looked at again", { skip }, async () => {
  const claim = { "/path": { path: "/workspace/a", device: 1, inode: 7 } };
  const { had, run } = effect();
  const args = { path: "/workspace/a", text: "x" };
  assert.equal(await guarded().call("fs", "file_edit", args, { resolve: () => claim }, run), "done 1");
  let inode = 7;
  const moves = () => ({ "/path": { ...claim["/path"], inode: inode++ } });
  await assert.rejects(guarded().call("fs", "file_edit", args, { resolve: moves }, run), sdk.IdentityRefused);
  assert.equal(had.length, 1);
});

test("a yes is waited for, and a no is in the person's words", { skip }, async () => {
  const { had, run } = effect();
  const pay = guarded().tool("bank", "transfer", {}, run);
  const args = { to: "acc-1", amount: 5 };
  assert.equal(await pay(args, { toolCallId: "pay-yes" }), "done 1");
  await assert.rejects(pay(args, { toolCallId: "pay-yes" }), sdk.AlreadyDone);
  await assert.rejects(pay({ ...args, amount: 6 }, { toolCallId: "pay-no" }), (error) => {
    assert.ok(error instanceof sdk.ApprovalRefused, String(error));
    assert.match(error.forModel(), /not on a Friday/);
    return true;
  });
  assert.equal(had.length, 1);
});

test("an approval that is not waited for can be looked at and taken back", { skip }, async () => {
  assert.ok(client);
  const pay = guarded({ onPending: "throw" }).tool("bank", "transfer", {}, () => assert.fail("it ran"));
  const refused = await pay({ to: "acc-1", amount: 7 }, { toolCallId: "pay-later" }).catch((error) => error);
  assert.ok(refused instanceof sdk.ApprovalPending, String(refused));
  const { id } = refused.approval;
  const status = await client.approval(id);
  assert.deepEqual([status.state, status.rules[0]?.rule], ["pending", "money-asks"]);
  assert.equal((await client.waitForApproval(id, { deadlineSeconds: 0.3 })).state, "pending");
  assert.equal((await client.cancelApproval(id)).state, "cancelled");
});

test("an act that was cancelled does not begin", { skip }, async () => {
  assert.ok(client);
  const cancelling = client;
  /** @type {string[]} */
  const ids = [];
  const watching = new sdk.Client(url, {
    apiKey,
    fetch: async (address, init) => {
      const answer = await fetch(address, init);
      if (!String(address).endsWith("/decide")) return answer;
      const { decision_id: decisionId } = await answer.clone().json();
      ids.push(decisionId);
      await cancelling.cancelOperation(decisionId, { reason: "changed my mind" });
      return answer;
    },
  });
  const guard = new sdk.Guard(watching, {
    subject: { agent: "coder-1", on_behalf_of: "ada", session: "s-ts" },
    context: CONTEXT,
  });
  const call = guard.call(
    "fs",
    "file_edit",
    { path: "/workspace/b", text: "x" },
    { resolve: () => ({}) },
    () => assert.fail("it ran"),
  );
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof sdk.StartRefused, String(error));
    assert.equal(error.code, "operation.cancel_requested");
    return true;
  });
  assert.equal((await client.operation(ids[0] ?? "")).cancelRequested, true);
});

test("lost replies double nothing: the tool runs once, and it is told how it ended", { skip }, async () => {
  assert.ok(client);
  const { had, run } = effect();
  for (const lost of ["/decide", "/settle", "/start"]) {
    let left = 2;
    /** @type {string[]} */
    const asked = [];
    const losing = new sdk.Client(url, {
      apiKey,
      deadlineSeconds: 30,
      fetch: async (address, init) => {
        const answer = await fetch(address, init);
        asked.push(String(address));
        if (!String(address).endsWith(lost) || left === 0) return answer;
        left -= 1;
        await answer.arrayBuffer();
        throw networkError("UND_ERR_SOCKET");
      },
    });
    const subject = { agent: "coder-1", on_behalf_of: "ada", session: "s-ts" };
    const guard = new sdk.Guard(losing, { subject, context: CONTEXT });
    const settings = lost === "/start" ? { resolve: () => ({}) } : {};
    /** @type {sdk.Permitted[]} */
    const seen = [];
    const args = { to: "ada@example.com", body: lost };
    await guard.call("bank", "mail_send", args, settings, (judged, permitted) => {
      seen.push(permitted);
      return run(judged);
    });
    assert.equal(asked.filter((address) => address.endsWith(lost)).length, 3);
    const { state } = await client.operation(seen[0]?.decision?.decisionId ?? "");
    assert.equal(state, "succeeded", lost);
  }
  assert.equal(had.length, 3);
});
