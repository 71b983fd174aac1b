/**
 * One line of JSON in, one verdict out: what `authz capabilities verify` of the service answers, so that the
 * two implementations can be held against each other.
 *
 * In: `{"chain": […], "verify_at": seconds, "aud": …, "iss": …, "keys": {kid: jwk}, "revoked_jti": […]}`, or
 * `"token"` instead of `"chain"` for one link's envelope alone. Out: `{result: "accept", reason: "ok"}` or
 * `{result: "reject", reason: code}`. A bad line is a reject.
 *
 * @module
 */

import { NotStrictJson, parseStrict } from "../strict-json.js";
import { verifyChain } from "./chain.js";
import { ROOT_CLAIMS, checkDepth, isUri, parseAncestors, parseHolder, parseTokenClaims } from "./claims.js";
import { parseEntries } from "./entries.js";
import { LINK_TYP, checkSignature, keyFor, linkHash, parseEnvelope } from "./envelope.js";
import {
  DEFAULT_MAX_LIFETIME_SECONDS,
  DEFAULT_SKEW_SECONDS,
  checkDates,
  checkExpected,
} from "./expectations.js";
import { BadKey, publishedKey } from "./keys.js";
import { Reason, Refusal } from "./reasons.js";
import { hasOnly, isDate, isHash, isName, isObject } from "./values.js";

const MAX_LINE_BYTES = 1_048_576;
const MAX_LISTED = 4_096;
const REQUIRED = ["verify_at", "aud", "iss", "keys"];
/** @type {Readonly<Record<string, (value: unknown) => boolean>>} */
const REVOKED = { revoked_jti: (value) => isName(value), revoked_link: isHash, revoked_holder: isHash };
const MEMBERS = new Set([...REQUIRED, ...Object.keys(REVOKED), "chain", "token"]);

/** The line is no question that could be answered. */
class BadLine extends Error {}

/**
 * The verdict on one line; never throws for what the line holds.
 *
 * @param {Uint8Array<ArrayBuffer> | string} line
 * @returns {Promise<{ result: "accept" | "reject", reason: string }>}
 */
export async function checkLine(line) {
  const refusal = await explainLine(line);
  return refusal === null ? { result: "accept", reason: "ok" } : { result: "reject", reason: refusal.reason };
}

/**
 * Why `line` is refused, with the link and in words; `null` when it is accepted.
 *
 * @param {Uint8Array<ArrayBuffer> | string} line
 * @returns {Promise<Refusal | null>}
 */
export async function explainLine(line) {
  let question;
  /** @type {Map<string, import("./keys.js").PublicKey>} */
  const keys = new Map();
  try {
    question = parseQuestion(typeof line === "string" ? new TextEncoder().encode(line) : line);
    for (const [kid, jwk] of Object.entries(question.keys)) {
      const key = await publishedKey(jwk);
      if (key !== null) keys.set(kid, key);
    }
  } catch (error) {
    if (error instanceof BadLine || error instanceof NotStrictJson || error instanceof BadKey) {
      return new Refusal(Reason.LINE_INVALID, error.message);
    }
    throw error;
  }
  const revoked = {
    jtis: new Set(question.revoked_jti ?? []),
    links: new Set(question.revoked_link ?? []),
    holders: new Set(question.revoked_holder ?? []),
  };
  if (Object.hasOwn(question, "token")) return checkToken(question, keys, revoked);
  const { chain, verify_at: now, aud: audience, iss: issuer } = question;
  const found = await verifyChain(chain, { now, audience, issuer, keys, revoked });
  return found instanceof Refusal ? found : null;
}

/**
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Record<string, any>}
 */
function parseQuestion(data) {
  if (data.length > MAX_LINE_BYTES) throw new BadLine(`the line is over ${MAX_LINE_BYTES} bytes`);
  const question = parseStrict(data, { keepFractions: true });
  if (!isObject(question) || !REQUIRED.every((name) => Object.hasOwn(question, name))) {
    throw new BadLine("a line is an object with `verify_at`, `aud`, `iss` and `keys`");
  }
  if (Object.hasOwn(question, "chain") === Object.hasOwn(question, "token")) {
    throw new BadLine("a line has either `chain` or `token`");
  }
  if (!hasOnly(question, MEMBERS)) throw new BadLine("the line has an unknown member");
  if (!isDate(question.verify_at) || !isUri(question.aud)) {
    throw new BadLine("`verify_at` is an integer, seconds since 1970, and `aud` a string");
  }
  if (!isUri(question.iss) || !isObject(question.keys))
    throw new BadLine("`iss` is a string and `keys` an object");
  for (const [name, isOne] of Object.entries(REVOKED)) {
    const listed = Object.hasOwn(question, name) ? question[name] : [];
    if (!Array.isArray(listed) || listed.length > MAX_LISTED || !listed.every((item) => isOne(item))) {
      throw new BadLine(`\`${name}\` is a list of identifiers`);
    }
  }
  return question;
}

/** @type {Readonly<Record<string, (value: unknown) => unknown>>} */
const OF_LINKS = {
  cnf: parseHolder,
  authorization_details: parseEntries,
  anc: parseAncestors,
  del_depth: checkDepth,
  del_max_depth: checkDepth,
};

/**
 * One root's envelope alone. Claims of links may be absent; those that are there are checked.
 *
 * @param {Record<string, any>} question
 * @param {import("./chain.js").Keys} keys
 * @param {import("./revocations.js").Revocations} revoked
 * @returns {Promise<Refusal | null>}
 */
async function checkToken(question, keys, revoked) {
  const envelope = parseEnvelope(question.token, { typ: LINK_TYP, hasKid: true });
  if (envelope instanceof Refusal) return envelope;
  const key = keyFor(envelope, keys);
  if (key instanceof Refusal) return key;
  const forged = await checkSignature(envelope, key);
  if (forged !== null) return forged;
  const claims = envelope.unverifiedClaims;
  if (!hasOnly(claims, ROOT_CLAIMS))
    return new Refusal(Reason.CLAIM_UNKNOWN, "a claim is not of the profile");
  const token = parseTokenClaims(claims);
  if (token instanceof Refusal) return token;
  for (const [name, parse] of Object.entries(OF_LINKS)) {
    const found = Object.hasOwn(claims, name) ? await parse(claims[name]) : null;
    if (found instanceof Refusal) return found;
  }
  return (
    checkExpected(token, {
      issuer: question.iss,
      audience: question.aud,
      seconds: DEFAULT_MAX_LIFETIME_SECONDS,
    }) ??
    checkDates(token, question.verify_at, DEFAULT_SKEW_SECONDS) ??
    checkNotRevoked(token.jti, await linkHash(envelope), revoked)
  );
}

/**
 * @param {string} jti
 * @param {string} link
 * @param {import("./revocations.js").Revocations} revoked
 * @returns {Refusal | null}
 */
function checkNotRevoked(jti, link, revoked) {
  if (revoked.jtis.has(jti)) return new Refusal(Reason.REVOKED_JTI, "revoked by its `jti`");
  return revoked.links.has(link) ? new Refusal(Reason.REVOKED_LINK, "the link is revoked") : null;
}
