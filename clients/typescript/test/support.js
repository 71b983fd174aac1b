/** What the tests share: answers as the wire gives them, and a `fetch` that gives them. */

import { readFileSync } from "node:fs";
import { requestDigest } from "../src/digests.js";

export const NOW = new Date("2026-11-30T12:00:00Z");
export const KEY = "key-for-tests";
export const IDS = { trace_id: "t-1", turn_id: "1", tool_call_id: "c-1" };

/** @type {import("../src/index.js").DecideRequest} */
export const REQUEST = {
  subject: { agent: "coder-1" },
  tool: { server: "fs", name: "file_edit" },
  arguments: { path: "/workspace/app.py" },
};

/** What an allow holds, but for the digest of its request. */
export const ALLOW = {
  decision_id: "d-1",
  effect: "allow",
  expires_at: "2026-11-30T12:01:00.250Z",
  matched: [{ rule: "workspace-write", kind: "permit", file: "rules/w.cedar", line: 4, reason: "inside" }],
  stage: "policy",
  code: "policy.permit",
  authority: "A1",
  side_effect: "idempotent",
  accesses: [
    {
      verb: "write",
      resource: 'File::"/workspace/app.py"',
      uri: "file:///workspace/app.py",
      scope: "object",
      authority: "A1",
      effect: "allow",
      rules: ["workspace-write"],
    },
  ],
  arguments: { path: "/workspace/app.py", allow_multiple: false },
  fingerprint: "sha256:bb",
  idempotency_key: "ik-1",
  lease: { token: "lease-secret", expires_at: "2026-11-30T12:01:00Z" },
  obligations: [],
  policy_version: "sha256:cc",
  sequence: 42,
};

export const DENY = {
  decision_id: "d-2",
  effect: "deny",
  stage: "policy",
  code: "policy.forbid",
  matched: [{ rule: "protect-secrets", kind: "forbid", reason: "Secrets stay." }],
  message: "secrets are not for agents",
  next: ["change_arguments", "stop"],
  retry_unchanged: false,
};

export const ASK = {
  decision_id: "d-3",
  effect: "require_approval",
  stage: "approval",
  code: "approval.required",
  matched: [{ rule: "payments-need-a-human", kind: "ask" }],
  approval: {
    id: "a-1",
    state: "pending",
    url: "http://localhost/ui/a-1",
    expires_at: "2026-11-30T13:00:00+00:00",
  },
  next: ["wait"],
};

export const OPERATION = {
  decision_id: "d-1",
  state: "succeeded",
  settles: true,
  ticketed: false,
  cancel_requested: false,
  contradicted: false,
  tool: "fs/file_edit",
  trace_id: "t-1",
  turn_id: "1",
  tool_call_id: "c-1",
};

/**
 * @param {unknown} body
 * @param {{ status?: number, type?: string, headers?: Record<string, string> }} [options]
 */
export function reply(body, { status = 200, type = "application/json", headers = {} } = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return new Response(text, { status, headers: { "content-type": type, ...headers } });
}

/**
 * @param {number} status
 * @param {string} code
 * @param {Record<string, unknown>} [more]
 */
export function problem(status, code, more = {}) {
  const body = {
    type: "about:blank",
    title: "t",
    status,
    code,
    detail: "because",
    next: [],
    retry_unchanged: false,
  };
  return reply({ ...body, ...more }, { status, type: "application/problem+json" });
}

/**
 * One exchange, as a fake service has seen it.
 *
 * @typedef {object} Seen
 * @property {string} method
 * @property {string} path
 * @property {any} body
 * @property {RequestInit} init
 */

/**
 * A `fetch` that answers by `answer`, which may return a `Response` or a body for a decision: the digest of
 * the request is filled in where it names none. `seen` has every request.
 *
 * @param {(seen: Seen, count: number) => unknown} answer
 */
export function serving(answer) {
  /** @type {Seen[]} */
  const seen = [];
  /** @type {typeof globalThis.fetch} */
  const fetch = async (url, init = {}) => {
    const { pathname, search } = new URL(String(url));
    const body = typeof init.body === "string" ? JSON.parse(init.body) : null;
    const one = { method: init.method ?? "GET", path: pathname + search, body, init };
    seen.push(one);
    const found = await answer(one, seen.length);
    if (found instanceof Response) return found;
    const digest =
      body !== null && pathname.endsWith("/decide") ? { request_digest: await requestDigest(body) } : {};
    return reply({ ...digest, .../** @type {object} */ (found) });
  };
  return { fetch, seen };
}

/** A failure as Node's `fetch` has it.
 *
 * @param {string} code
 */
export function networkError(code) {
  return Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error(code), { code }) });
}

/** Never answers, but for the signal.
 *
 * @param {AbortSignal | null | undefined} signal
 * @returns {Promise<never>}
 */
export function silence(signal) {
  return new Promise((_, reject) => {
    signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
  });
}

/**
 * @param {string} name of a file in the repository
 * @returns {any}
 */
export function repositoryJson(name) {
  return JSON.parse(readFileSync(new URL(`../../../${name}`, import.meta.url), "utf8"));
}
