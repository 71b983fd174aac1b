/** The guard once a tool has run, or was not begun: what is told of it, and what becomes of its result. */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as sdk from "../src/index.js";
import { ARGS, allowing, refusalOf, world } from "./guarding.js";
import { ALLOW, DENY, OPERATION, networkError, problem } from "./support.js";

test("an error means what was declared, or what the tool can bear", async () => {
  class Conflict extends Error {}
  /** @type {[string, sdk.CallSettings, string][]} */
  const cases = [
    ["idempotent", {}, "failed_retryable"],
    ["cumulative", {}, "unknown"],
    ["cumulative", { failures: [[Conflict, "failed_final"]] }, "failed_final"],
  ];
  for (const [side_effect, settings, outcome] of cases) {
    const { guard, seen } = world(allowing({ side_effect }));
    const thrown = new Conflict("x");
    const call = guard.call("fs", "file_edit", ARGS, settings, () => Promise.reject(thrown));
    const error = await call.then(
      () => assert.fail(),
      (/** @type {any} */ reason) => reason,
    );
    assert.equal(seen.at(-1)?.body.outcome, outcome);
    if (outcome === "unknown") {
      assert.ok(error instanceof sdk.OutcomeUnknown && error.mayHaveRun);
      assert.equal(error.cause, thrown);
    } else {
      assert.equal(error, thrown);
    }
  }
});

test("what the tool says of itself is told, whatever it throws then", async () => {
  const { guard, seen } = world(allowing());
  const send = guard.tool("fs", "file_edit", {}, (_args, permitted) => {
    permitted.succeeded({ externalId: "m-1" });
    throw new Error("afterwards");
  });
  await assert.rejects(send(ARGS), /afterwards/);
  const { outcome, external_id: externalId } = seen.at(-1)?.body ?? {};
  assert.deepEqual([outcome, externalId], ["succeeded", "m-1"]);
  await guard.call("fs", "file_edit", ARGS, {}, (_args, permitted) => {
    assert.equal(permitted.idempotencyKey, "ik-1");
    assert.throws(() => permitted.failed("succeeded"), TypeError);
    permitted.failed("failed_final", { detail: "no" });
  });
  assert.equal(seen.at(-1)?.body.outcome, "failed_final");
});

test("an outcome that cannot be told leaves the result as it is", async () => {
  /** @type {sdk.Unsettled[]} */
  const unsettled = [];
  const { run, logged } = world(
    ({ path }) => (path === "/decide" ? ALLOW : problem(503, "store.unavailable")),
    { onUnsettled: (one) => void unsettled.push(one) },
  );
  assert.equal(await run(), "done");
  assert.equal(unsettled[0]?.ended.outcome, "succeeded");
  assert.ok(unsettled[0]?.failure instanceof sdk.ServerFailure);
  assert.match(logged.join(), /operation `d-1` becomes unknown/);
  assert.doesNotMatch(logged.join(), /lease-secret/);
});

test("a report whose answer was lost is looked up before it is called untold", async () => {
  const { run, logged } = world(({ path }) => {
    if (path === "/decide") return ALLOW;
    return path.endsWith("/settle") ? Promise.reject(networkError("UND_ERR_SOCKET")) : OPERATION;
  });
  assert.equal(await run(), "done");
  assert.deepEqual(logged, []);
});

test("what was refused, or stands otherwise, is not told", async () => {
  const refused = problem(409, "operation.settled");
  const lost = networkError("UND_ERR_SOCKET");
  /** @type {[Response | Error, Record<string, unknown>][]} */
  const cases = [
    [refused, { state: "succeeded" }],
    [lost, { state: "executing" }],
    [lost, { state: "failed_final" }],
    [lost, { state: "succeeded", external_id: "another" }],
  ];
  for (const [answer, standing] of cases) {
    const { run, logged } = world(({ path }) => {
      if (path === "/decide") return ALLOW;
      if (!path.endsWith("/settle")) return { ...OPERATION, ...standing };
      return answer instanceof Error ? Promise.reject(answer) : answer.clone();
    });
    assert.equal(await run(), "done");
    assert.match(logged.join(), /could not be told/);
  }
});

test("a try that began unknown to us, and was cancelled, is given back", async () => {
  const operation = { state: "executing", settles: true, decision_id: "d-1" };
  const cancelled = { ...DENY, code: "operation.cancel_requested", lease: ALLOW.lease, operation };
  for (const taken of [OPERATION, problem(409, "operation.settled")]) {
    const { run, seen, ran } = world(({ path }) => (path === "/decide" ? cancelled : taken));
    assert.ok((await refusalOf(run())) instanceof sdk.CallDenied);
    assert.deepEqual([seen[1]?.path, seen[1]?.body.outcome], ["/operations/d-1/settle", "failed_retryable"]);
    assert.deepEqual(ran, []);
  }
});

test("the name of a try that did not begin is used again, and no other", async () => {
  const { run, seen } = world((one, count) => {
    if (count === 1) throw networkError("UND_ERR_SOCKET");
    return allowing()(one);
  });
  const ids = { traceId: "t", turnId: "1", toolCallId: "c" };
  await refusalOf(run(ids));
  await run(ids);
  await run(ids);
  const [first, second, third] = seen
    .filter(({ path }) => path === "/decide")
    .map(({ body }) => body.context.start.attempt);
  assert.equal(first, second);
  assert.notEqual(second, third);
});

test("a call in parts ends once", async () => {
  const { guard, seen } = world(allowing());
  const pending = await guard.begin("fs", "file_edit", ARGS);
  assert.deepEqual(pending.permitted.arguments, ALLOW.arguments);
  await guard.end(pending);
  assert.equal(seen.at(-1)?.body.outcome, "succeeded");
  await assert.rejects(guard.end(pending), /has ended already/);
});
