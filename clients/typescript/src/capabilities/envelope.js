/**
 * The strict parser of one compact JWS (RFC 7515, RFC 8725). A token has one spelling, and its header is an
 * allow-list. Nothing is believed before `checkSignature`: until then it only says which key to look up.
 *
 * @module
 */

import { canonicalBytes } from "../canonical-json.js";
import { base64url, fromBase64url, sha256Base64url } from "../digests.js";
import { NotStrictJson, parseStrict } from "../strict-json.js";
import { BadKey, SigningKey } from "./keys.js";
import { Reason, Refusal } from "./reasons.js";
import { hasOnly, isObject, member } from "./values.js";

/** The one algorithm. RFC 9864 renames it `Ed25519`; one configured constant is what the profile has. */
export const ALG = "EdDSA";
export const LINK_TYP = "cap+jwt";
export const PROOF_TYP = "cap-pop+jwt";
export const TICKET_TYP = "cap-ticket+jwt";
export const MAX_TOKEN_CHARACTERS = 16_384;
const MAX_HEADER_CHARACTERS = 1_024;
/** 64 bytes in base64url. */
const SIGNATURE_CHARACTERS = 86;
const HEADER_MEMBERS = new Set(["alg", "typ", "kid"]);
const MAX_KID_CHARACTERS = 256;
const ascii = new TextEncoder();

/**
 * One token, parsed. Its claims are unverified until `checkSignature` has passed.
 *
 * @typedef {object} Envelope
 * @property {string | null} kid
 * @property {Record<string, any>} unverifiedClaims
 * @property {Uint8Array<ArrayBuffer>} signingInput
 * @property {Uint8Array<ArrayBuffer>} signature
 * @property {string} token
 */

/**
 * Parse a compact JWS of type `typ`. `hasKid`: whether a `kid` is required, or refused.
 *
 * @param {unknown} token
 * @param {{ typ: string, hasKid: boolean }} expected
 * @returns {Envelope | Refusal}
 */
export function parseEnvelope(token, { typ, hasKid }) {
  if (typeof token !== "string") return new Refusal(Reason.TOKEN_INVALID, "a token is a string");
  if (token.length > MAX_TOKEN_CHARACTERS) {
    return new Refusal(Reason.TOKEN_TOO_LARGE, `the token is over ${MAX_TOKEN_CHARACTERS} characters`);
  }
  const parts = token.split(".");
  const [head, payload, signed] = parts;
  if (parts.length !== 3 || !head || !payload || !signed) {
    return new Refusal(Reason.TOKEN_PARTS, "a token has a header, a payload and a signature");
  }
  if (head.length > MAX_HEADER_CHARACTERS)
    return new Refusal(Reason.TOKEN_TOO_LARGE, "the header is too large");
  const [headBytes, payloadBytes, signature] = [head, payload, signed].map(fromBase64url);
  if (!headBytes || !payloadBytes || !signature) {
    return new Refusal(Reason.TOKEN_ENCODING, "a part is not unpadded base64url in one spelling");
  }
  let header, claims;
  try {
    header = parseStrict(headBytes, { keepFractions: true });
    claims = parseStrict(payloadBytes, { keepFractions: true });
  } catch (error) {
    if (error instanceof NotStrictJson) return new Refusal(Reason.TOKEN_JSON, error.message);
    throw error;
  }
  if (!isObject(header) || !isObject(claims)) {
    return new Refusal(Reason.TOKEN_JSON, "header and payload are JSON objects");
  }
  const refused = checkHeader(header, typ, hasKid);
  if (refused !== null) return refused;
  if (signed.length !== SIGNATURE_CHARACTERS) {
    return new Refusal(Reason.SIGNATURE_INVALID, "a signature has 64 bytes");
  }
  return {
    kid: member(header, "kid") ?? null,
    unverifiedClaims: claims,
    signingInput: ascii.encode(`${head}.${payload}`),
    signature,
    token,
  };
}

/**
 * `alg`, `typ` and `kid`: no `jwk`, `jku`, `x5*`, `crit`, `zip`, `b64`, `cty` or anything else.
 *
 * @param {Record<string, unknown>} header
 * @param {string} typ
 * @param {boolean} hasKid
 * @returns {Refusal | null}
 */
function checkHeader(header, typ, hasKid) {
  if (member(header, "alg") !== ALG) return new Refusal(Reason.ALG_REFUSED, `\`alg\` is exactly \`${ALG}\``);
  // RFC 8725, section 3.11. Media types ignore case; a token of ours is written in one way.
  if (member(header, "typ") !== typ) return new Refusal(Reason.TYP_REFUSED, `\`typ\` is exactly \`${typ}\``);
  if (!hasOnly(header, HEADER_MEMBERS)) {
    return new Refusal(Reason.HEADER_UNKNOWN, "the header holds other members than allowed");
  }
  if (!Object.hasOwn(header, "kid")) {
    return hasKid ? new Refusal(Reason.KID_MISSING, "the header has no `kid`") : null;
  }
  if (!hasKid) {
    return new Refusal(Reason.KID_REFUSED, "the key is known from elsewhere, and the header names one");
  }
  const { kid } = header;
  if (typeof kid !== "string" || kid.length === 0 || Array.from(kid).length > MAX_KID_CHARACTERS) {
    return new Refusal(Reason.KID_INVALID, "`kid` is a short string");
  }
  return null;
}

/**
 * SHA-256 over the signing input: what a child's `par_hash`, budgets and revocations go by. Not over the
 * signature, so that a second signature of the same link is the same link.
 *
 * @param {Envelope} envelope
 */
export async function linkHash(envelope) {
  return sha256Base64url(envelope.signingInput);
}

/**
 * SHA-256 over the whole token: what a proof's `ath` is (RFC 9449, section 4.2).
 *
 * @param {string} token
 */
export async function tokenHash(token) {
  return sha256Base64url(ascii.encode(token));
}

/**
 * The key that `kid` names: an exact look-up in the loaded map, never a path, a URL or a query.
 *
 * @param {Envelope} envelope
 * @param {ReadonlyMap<string, import("./keys.js").PublicKey>} keys
 * @returns {import("./keys.js").PublicKey | Refusal}
 */
export function keyFor(envelope, keys) {
  if (envelope.kid === null) return new Refusal(Reason.KID_MISSING, "the header has no `kid`");
  return keys.get(envelope.kid) ?? new Refusal(Reason.KID_UNKNOWN, "no loaded key has this `kid`");
}

/**
 * Refuse a signature that is not `key`'s over exactly the bytes that were parsed.
 *
 * @param {Envelope} envelope
 * @param {import("./keys.js").PublicKey} key
 * @returns {Promise<Refusal | null>}
 */
export async function checkSignature(envelope, key) {
  const holds = await key.verifies(envelope.signature, envelope.signingInput);
  return holds ? null : new Refusal(Reason.SIGNATURE_INVALID, "the signature is not this key's");
}

/**
 * The compact JWS of `claims`.
 *
 * @param {object} claims
 * @param {import("./keys.js").Signer} key
 * @param {{ typ: string, kid?: string | undefined }} header
 * @returns {Promise<string>}
 * @throws {BadKey} for a signature that is not the key's
 */
export async function sign(claims, key, { typ, kid }) {
  const header = canonicalBytes({ alg: ALG, kid, typ });
  const text = `${base64url(header)}.${base64url(canonicalBytes(claims))}`;
  const signingInput = ascii.encode(text);
  const signature = await key.sign(signingInput);
  // What a key elsewhere answers is taken as little on trust as a token: it could have been swapped there.
  if (!(key instanceof SigningKey) && !(await key.public.verifies(signature, signingInput))) {
    throw new BadKey("the signer returned a signature that is not its key's");
  }
  return `${text}.${base64url(signature)}`;
}
