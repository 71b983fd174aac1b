/**
 * What the tests of guards share: a guard over a service of the tests, and a tool that notes what it was
 * given.
 */

import assert from "node:assert/strict";
import * as sdk from "../src/index.js";
import { ALLOW, KEY, NOW, OPERATION, serving } from "./support.js";

export const ARGS = { path: "/workspace/../workspace/app.py" };

/**
 * A guard over a service that answers by `answer`, a tool that notes what it was given, and what was logged.
 *
 * @param {(seen: import("./support.js").Seen, count: number) => unknown} answer
 * @param {Partial<sdk.GuardOptions>} [options]
 */
export function world(answer, options = {}) {
  const { fetch, seen } = serving(answer);
  /** @type {string[]} */
  const logged = [];
  const client = new sdk.Client("http://service.example", {
    apiKey: KEY,
    fetch,
    clock: () => NOW,
    attempts: 1,
  });
  const log = { warn: (/** @type {string} */ message) => void logged.push(message) };
  const guard = new sdk.Guard(client, { subject: { agent: "coder-1" }, log, ...options });
  /** @type {object[]} */
  const ran = [];
  /** @param {sdk.CallSettings} [settings] */
  const run = (settings = {}) =>
    guard.call("fs", "file_edit", ARGS, settings, (args) => {
      ran.push(args);
      return "done";
    });
  return { guard, seen, logged, ran, run, paths: () => seen.map(({ path }) => path) };
}

/**
 * Allows, and takes every report.
 *
 * @param {Record<string, unknown>} [allow]
 * @returns {(seen: import("./support.js").Seen) => unknown}
 */
export function allowing(allow = {}) {
  return ({ path, body }) =>
    path === "/decide" ? { ...ALLOW, ...allow } : { ...OPERATION, state: body?.outcome ?? "executing" };
}

/**
 * @param {Promise<unknown>} promise
 * @returns {Promise<any>}
 */
export async function refusalOf(promise) {
  const error = await promise.then(
    () => assert.fail("it ran"),
    (/** @type {unknown} */ reason) => reason,
  );
  assert.ok(error instanceof sdk.CallRefused, String(error));
  return error;
}
