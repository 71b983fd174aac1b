/**
 * The claims of a link, each by itself: an allow-list for roots and one for derived links. Types are exact:
 * JSON `true` is not `1`, and `5.0` is no date (RFC 7519 would take one; here it is a second spelling of an
 * instant).
 *
 * @module
 */

import { parseEntries } from "./entries.js";
import { BadKey, publicKey } from "./keys.js";
import { Reason, Refusal } from "./reasons.js";
import { hasExactly, hasOnly, isDate, isHash, isInteger, isName, member } from "./values.js";

/** The cap on `del_depth` that no token can raise. */
export const MAX_DELEGATIONS = 8;
const MAX_ANCESTORS = 64;
const MAX_URI_CHARACTERS = 2_048;
const ENVELOPE = ["iss", "aud", "sub", "act", "jti", "iat", "exp", "nbf"];
const LINK = [...ENVELOPE, "cnf", "authorization_details", "del_depth", "del_max_depth"];
/** @type {ReadonlySet<string>} */
export const ENVELOPE_CLAIMS = new Set(ENVELOPE);
/** @type {ReadonlySet<string>} */
export const ROOT_CLAIMS = new Set([...LINK, "anc"]);
const DERIVED_CLAIMS = new Set([...LINK, "par_hash"]);

/**
 * One link above a root that came out of a server-side narrowing: an element of `anc`.
 *
 * @typedef {object} Ancestor
 * @property {string} link link hash
 * @property {string} jti
 * @property {string} jkt thumbprint of its holder's key (the member is named as in RFC 9449)
 * @property {string} sub the agent who held it
 */

/**
 * What every token of the profile says. Dates are seconds since 1970, in UTC.
 *
 * @typedef {object} TokenClaims
 * @property {string} iss
 * @property {string} aud
 * @property {string} sub
 * @property {string} agent `act.sub`, or `sub` where there is none
 * @property {string} jti
 * @property {number} iat
 * @property {number} exp
 * @property {number | null} nbf
 */

/**
 * What one link says.
 *
 * @typedef {object} LinkClaims
 * @property {TokenClaims} token
 * @property {import("./keys.js").PublicKey} holder
 * @property {readonly import("./entries.js").Entry[]} entries
 * @property {number} depth
 * @property {number} maxDepth
 * @property {string | null} parHash
 * @property {readonly Ancestor[]} ancestors
 */

/**
 * The claims of a link of a chain.
 *
 * @param {Record<string, any>} claims
 * @param {{ isRoot: boolean }} place
 * @returns {Promise<LinkClaims | Refusal>}
 */
export async function parseLink(claims, { isRoot }) {
  const refused = checkNames(claims, isRoot);
  if (refused !== null) return refused;
  const token = parseTokenClaims(claims);
  if (token instanceof Refusal) return token;
  const holder = await parseHolder(member(claims, "cnf"));
  if (holder instanceof Refusal) return holder;
  const [depth, maxDepth] = [member(claims, "del_depth"), member(claims, "del_max_depth")];
  if (!isInteger(depth) || !isInteger(maxDepth)) {
    return new Refusal(Reason.DEPTH_INVALID, "`del_depth` and `del_max_depth` are integers of at least 0");
  }
  const parHash = member(claims, "par_hash") ?? null;
  if (!isRoot && !isHash(parHash)) {
    return new Refusal(Reason.PAR_HASH_INVALID, "`par_hash` is a SHA-256 in base64url");
  }
  const ancestors = Object.hasOwn(claims, "anc") ? parseAncestors(claims.anc) : [];
  if (ancestors instanceof Refusal) return ancestors;
  // Last: it is by far the most work.
  const entries = parseEntries(member(claims, "authorization_details"));
  if (entries instanceof Refusal) return entries;
  return { token, holder, entries, depth, maxDepth, parHash, ancestors };
}

/**
 * @param {Record<string, unknown>} claims
 * @param {boolean} isRoot
 * @returns {Refusal | null}
 */
function checkNames(claims, isRoot) {
  if (isRoot && Object.hasOwn(claims, "par_hash")) {
    return new Refusal(Reason.PAR_HASH_ON_ROOT, "a root has no parent, and so no `par_hash`");
  }
  if (!isRoot && Object.hasOwn(claims, "anc")) {
    return new Refusal(Reason.ANC_ON_DERIVED, "only a root carries `anc`");
  }
  if (!hasOnly(claims, isRoot ? ROOT_CLAIMS : DERIVED_CLAIMS)) {
    return new Refusal(Reason.CLAIM_UNKNOWN, "a claim is not of the profile");
  }
  return null;
}

/** @type {readonly (readonly [string, import("./reasons.js").ReasonCode, number])[]} */
const TEXTS = [
  ["iss", Reason.ISS_INVALID, MAX_URI_CHARACTERS],
  ["aud", Reason.AUD_INVALID, MAX_URI_CHARACTERS],
  ["sub", Reason.SUB_INVALID, 256],
  ["jti", Reason.JTI_INVALID, 256],
];

/**
 * `iss aud sub act jti iat exp nbf`, by themselves.
 *
 * @param {Record<string, any>} claims
 * @returns {TokenClaims | Refusal}
 */
export function parseTokenClaims(claims) {
  for (const [name, reason, most] of TEXTS) {
    if (!isName(member(claims, name), most)) {
      return new Refusal(reason, `\`${name}\` is one string of 1 to ${most} characters without controls`);
    }
  }
  const act = member(claims, "act");
  if (act !== undefined && (!hasExactly(act, "sub") || !isName(act.sub))) {
    return new Refusal(Reason.ACT_INVALID, "`act` has exactly `sub`, a string");
  }
  const { iat, exp } = claims;
  if (!isDate(iat)) return new Refusal(Reason.IAT_INVALID, "`iat` is an integer, seconds since 1970");
  if (!isDate(exp)) return new Refusal(Reason.EXP_INVALID, "`exp` is an integer, seconds since 1970");
  const nbf = member(claims, "nbf");
  if (nbf !== undefined && !isDate(nbf)) {
    return new Refusal(Reason.NBF_INVALID, "`nbf` is an integer, seconds since 1970");
  }
  const { iss, aud, sub, jti } = claims;
  return { iss, aud, sub, agent: act === undefined ? sub : act.sub, jti, iat, exp, nbf: nbf ?? null };
}

/**
 * `cnf.jwk` (RFC 7800): a key itself; one by name could not be checked offline.
 *
 * @param {unknown} cnf
 * @returns {Promise<import("./keys.js").PublicKey | Refusal>}
 */
export async function parseHolder(cnf) {
  if (!hasExactly(cnf, "jwk")) return new Refusal(Reason.CNF_INVALID, "`cnf` has exactly `jwk`");
  try {
    return await publicKey(cnf.jwk);
  } catch (error) {
    if (error instanceof BadKey) return new Refusal(Reason.CNF_INVALID, error.message);
    throw error;
  }
}

/**
 * The elements of `anc`, in a root or a ticket.
 *
 * @param {unknown} anc
 * @returns {readonly Ancestor[] | Refusal}
 */
export function parseAncestors(anc) {
  if (!Array.isArray(anc) || anc.length === 0 || anc.length > MAX_ANCESTORS) {
    return new Refusal(Reason.ANC_INVALID, `\`anc\` is a list of 1 to ${MAX_ANCESTORS} ancestors`);
  }
  for (const item of anc) {
    const isOne =
      hasExactly(item, "link", "jti", "jkt", "sub") &&
      isHash(item.link) &&
      isHash(item.jkt) &&
      isName(item.jti) &&
      isName(item.sub);
    if (!isOne) return new Refusal(Reason.ANC_INVALID, "an ancestor has exactly `link jti jkt sub`");
  }
  return anc;
}

/**
 * The depth alone, as a claim that may be absent has it.
 *
 * @param {unknown} value
 * @returns {Refusal | null}
 */
export function checkDepth(value) {
  return isInteger(value) ? null : new Refusal(Reason.DEPTH_INVALID, "a depth is an integer of at least 0");
}

/**
 * Whether `value` can be an issuer or an audience.
 *
 * @param {unknown} value
 * @returns {value is string}
 */
export function isUri(value) {
  return isName(value, MAX_URI_CHARACTERS);
}
