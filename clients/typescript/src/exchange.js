/**
 * One request over `fetch`, and again where that is safe. Everything that goes wrong is a typed refusal.
 *
 * @module
 */

import {
  Aborted,
  DecisionUnavailable,
  MalformedAnswer,
  RequestRefused,
  ServerFailure,
  Timeout,
  Unreachable,
} from "./errors.js";
import { NotStrictJson, parseStrict } from "./strict-json.js";

/** A longer answer is not read to its end. */
export const MAX_ANSWER_BYTES = 4 * 1024 * 1024;
export const FIRST_PAUSE_MS = 50;
/** Arguments may be nested 64 levels deep, and stand a few levels deep in an answer. */
const MAX_ANSWER_DEPTH = 96;

/**
 * A complete answer: its status, its media type without parameters, its body.
 *
 * @typedef {object} Incoming
 * @property {number} status
 * @property {string} mediaType
 * @property {Uint8Array} body
 */

/**
 * A request before it is sent.
 *
 * @typedef {object} Ask
 * @property {string} path
 * @property {"GET" | "POST"} [method]
 * @property {string} [body]
 * @property {boolean} [isRepeatable] sent twice it has one effect, and the second answer is as good as the
 *   first
 * @property {number} [waitSeconds] how long the service may hold the answer back, because it was asked to
 */

/**
 * How a client asks.
 *
 * @typedef {object} Terms
 * @property {string} baseUrl
 * @property {Headers} headers
 * @property {number} deadlineSeconds for a request with all its repeats
 * @property {number} attempts how often a request may be sent that is safe to repeat unchanged
 * @property {typeof globalThis.fetch} fetch
 */

/**
 * The JSON value of an answer with status 200.
 *
 * @param {Ask} ask
 * @param {Terms} terms
 * @param {AbortSignal} [signal]
 * @returns {Promise<unknown>}
 * @throws {DecisionUnavailable} for every other end
 */
export async function answered(ask, terms, signal) {
  const answer = await exchanged(ask, terms, signal);
  if (answer.status !== 200) refuse(answer.status, problemOf(answer));
  if (answer.mediaType !== "application/json")
    throw new MalformedAnswer("the answer is not `application/json`");
  return decode(answer.body);
}

/**
 * Send it, and again with the same bytes where that is safe, until there is an answer that lasts.
 *
 * Repeated is what was not answered, what broke off, and a 503 that says that the same request may help. A
 * try that may be followed by another waits for half of what is left of the deadline. At the end, what was
 * answered outlasts what was not: `Timeout` and `Unreachable` mean that no try was answered at all.
 *
 * @param {Ask} ask
 * @param {Terms} terms
 * @param {AbortSignal} [signal]
 * @returns {Promise<Incoming>}
 */
async function exchanged(ask, terms, signal) {
  const endsAt = performance.now() + terms.deadlineSeconds * 1000;
  /** @type {Incoming | MalformedAnswer | null} */
  let told = null;
  /** @type {DecisionUnavailable} */
  let failure = new Timeout("no answer within the deadline");
  let pauseMs = FIRST_PAUSE_MS;
  for (let repeatsLeft = (ask.isRepeatable ? terms.attempts : 1) - 1; repeatsLeft >= 0; repeatsLeft -= 1) {
    const leftMs = endsAt - performance.now();
    if (leftMs <= 0) break;
    try {
      const answer = await sent(
        ask,
        terms,
        (ask.waitSeconds ?? 0) * 1000 + leftMs / (repeatsLeft > 0 ? 2 : 1),
        signal,
      );
      if (!mayBeRepeated(answer)) return answer;
      told = answer;
    } catch (error) {
      if (error instanceof Timeout || error instanceof Unreachable) failure = error;
      else if (error instanceof MalformedAnswer && error.brokeOff) told = error;
      else throw error;
    }
    if (repeatsLeft > 0) {
      await pause(Math.min(pauseMs, Math.max(0, endsAt - performance.now()) / 2), signal);
      pauseMs *= 2;
    }
  }
  if (told === null || told instanceof MalformedAnswer) throw told ?? failure;
  return told;
}

/** @param {Incoming} answer */
function mayBeRepeated(answer) {
  return answer.status === 503 && problemOf(answer).retry_unchanged === true;
}

/**
 * One try. `Timeout` and `Unreachable` mean that no answer began. What breaks off later is malformed: a
 * caller that makes an exception for a dead network must not make it for an answer that was cut short.
 *
 * @param {Ask} ask
 * @param {Terms} terms
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<Incoming>}
 */
async function sent({ path, method = "POST", body }, terms, milliseconds, signal) {
  if (signal?.aborted) throw new Aborted("the caller gave up waiting");
  const stop = new AbortController();
  const giveUp = () => stop.abort();
  signal?.addEventListener("abort", giveUp);
  const timer = setTimeout(giveUp, milliseconds);
  let hasBegun = false;
  try {
    // Called as a function: a browser's `fetch` refuses to be anybody's method.
    const { fetch } = terms;
    const response = await until(
      stop.signal,
      fetch(terms.baseUrl + path, {
        method,
        headers: terms.headers,
        body: body ?? null,
        signal: stop.signal,
        redirect: "manual",
        cache: "no-store",
        credentials: "omit",
        referrerPolicy: "no-referrer",
      }),
    );
    hasBegun = true;
    return await read(response, stop.signal);
  } catch (error) {
    if (error instanceof DecisionUnavailable) throw error;
    if (signal?.aborted) throw new Aborted("the caller gave up waiting", { cause: error });
    if (hasBegun || isBroken(error)) {
      throw new MalformedAnswer("the answer broke off, or is not HTTP", { brokeOff: true, cause: error });
    }
    if (stop.signal.aborted) throw new Timeout("no answer within the deadline", { cause: error });
    throw new Unreachable("the service cannot be reached", { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
    stop.abort(); // of an answer that was not read to its end
  }
}

/**
 * `promise`, but no longer than `signal` lasts: a `fetch` of one's own may not look at it.
 *
 * @template T
 * @param {AbortSignal} signal
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
async function until(signal, promise) {
  /** @type {() => void} */
  let stop = () => {};
  const stopped = new Promise((_, reject) => {
    stop = () => reject(new Error("stopped"));
    signal.addEventListener("abort", stop);
  });
  try {
    return await /** @type {Promise<T>} */ (Promise.race([promise, stopped]));
  } finally {
    signal.removeEventListener("abort", stop);
    promise.catch(() => {}); // it may still fail, when nobody waits for it any more
  }
}

/**
 * @param {Response} response
 * @param {AbortSignal} signal
 * @returns {Promise<Incoming>}
 */
async function read(response, signal) {
  // A redirect is not followed: what stands at its end was not asked for, and must not get the key. Browsers
  // do not tell its status.
  if (response.type === "opaqueredirect") throw new MalformedAnswer("the answer is a redirect");
  // None was asked for, so there is nothing to unpack, and nothing that unpacks to gigabytes.
  if ((response.headers.get("content-encoding") ?? "identity").toLowerCase() !== "identity") {
    throw new MalformedAnswer("the answer is compressed, which was not asked for");
  }
  const [mediaType = ""] = (response.headers.get("content-type") ?? "").split(";");
  const body = response.body === null ? new Uint8Array() : await collected(response.body, signal);
  return { status: response.status, mediaType: mediaType.trim().toLowerCase(), body };
}

/**
 * @param {ReadableStream<Uint8Array>} stream
 * @param {AbortSignal} signal
 */
async function collected(stream, signal) {
  const reader = stream.getReader();
  /** @type {Uint8Array[]} */
  const chunks = [];
  let length = 0;
  for (;;) {
    const { done, value } = await until(signal, reader.read());
    if (done) break;
    chunks.push(value);
    length += value.length;
    if (length > MAX_ANSWER_BYTES)
      throw new MalformedAnswer(`the answer is longer than ${MAX_ANSWER_BYTES} bytes`);
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
  }
  return body;
}

/** What Node calls it when nobody was reached. */
const NOBODY_THERE = new Set([
  "EADDRNOTAVAIL",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTDOWN",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETUNREACH",
  "ENOTFOUND",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * Whether Node's `fetch` says that somebody was there: who did not speak HTTP, hung up, or could not prove to
 * be the service. That is whatever has a cause that is not known to mean the contrary, since versions name
 * causes differently. Browsers tell no cause.
 *
 * @param {unknown} error
 */
function isBroken(error) {
  const cause = error instanceof Error ? error.cause : null;
  if (typeof cause !== "object" || cause === null) return false;
  return !("code" in cause && NOBODY_THERE.has(String(cause.code)));
}

/**
 * Let so much time pass.
 *
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 */
export async function pause(milliseconds, signal) {
  await new Promise((resolve, reject) => {
    const giveUp = () => {
      clearTimeout(timer);
      reject(new Aborted("the caller gave up waiting"));
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", giveUp);
      resolve(undefined);
    }, milliseconds);
    signal?.addEventListener("abort", giveUp, { once: true });
    if (signal?.aborted) giveUp();
  });
}

/**
 * Throw what a status other than 200 means; `problem` has the members of an RFC 9457 body, or none.
 *
 * @param {number} status
 * @param {Record<string, unknown>} problem
 * @returns {never}
 */
export function refuse(status, problem) {
  const { code, detail = "", state } = problem;
  if (status >= 500) {
    throw new ServerFailure(`the service failed with status ${status}`, {
      status,
      code: typeof code === "string" ? code : null,
    });
  }
  if (!(status >= 400)) throw new MalformedAnswer(`status ${status} is neither an answer nor a problem`);
  if (typeof code !== "string" || typeof detail !== "string") {
    throw new MalformedAnswer(`status ${status} came without a problem that has a \`code\``);
  }
  throw new RequestRefused(`the service refused the request: \`${code}\``, {
    status,
    code,
    detail,
    state: typeof state === "string" ? state : null,
  });
}

/**
 * The members of an RFC 9457 problem; none when the body is not one.
 *
 * @param {Incoming} answer
 * @returns {Record<string, unknown>}
 */
function problemOf({ mediaType, body }) {
  if (mediaType !== "application/problem+json") return {};
  try {
    const value = decode(body);
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/**
 * @param {Uint8Array} body
 * @returns {unknown}
 */
function decode(body) {
  try {
    return parseStrict(body, { maxDepth: MAX_ANSWER_DEPTH, maxValues: Infinity });
  } catch (error) {
    if (error instanceof NotStrictJson)
      throw new MalformedAnswer(`the answer's body is not JSON: ${error.message}`);
    throw error;
  }
}
