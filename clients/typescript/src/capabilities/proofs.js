/**
 * Proof of possession: one per call, by the key of the leaf (names of RFC 9449, DPoP). Claims, all required
 * and no others: `jti`, `iat`, `aud`, `ath` (SHA-256 over the leaf token) and `request_digest` (of the body
 * as sent).
 *
 * @module
 */

import { PROOF_TYP, checkSignature, parseEnvelope, sign, tokenHash } from "./envelope.js";
import { DEFAULT_SKEW_SECONDS } from "./expectations.js";
import { Reason, Refusal, Refused } from "./reasons.js";
import { isUri } from "./claims.js";
import { hasOnly, isDate, isHash, isName, member } from "./values.js";

const DEFAULT_PROOF_SECONDS = 60;
const CLAIMS = new Set(["jti", "iat", "aud", "ath", "request_digest"]);

/**
 * A proof that holds. It is good once: whoever verifies inserts (thumbprint, `jti`) into a replay store,
 * atomically, and keeps it until `replayUntil`.
 *
 * @typedef {object} VerifiedProof
 * @property {string} jti
 * @property {string} thumbprint of the key that signed it
 * @property {number} iat
 * @property {number} replayUntil seconds since 1970: from here on the proof is too old
 */

/**
 * A proof for one request.
 *
 * @param {string} leafToken
 * @param {import("./keys.js").SigningKey} key
 * @param {{ audience: string, requestDigest: string, jti: string, iat: number }} claims `iat` in seconds
 *   since 1970
 * @returns {Promise<string>}
 * @throws {Refused} for claims that no verifier would take
 */
export async function prove(leafToken, key, { audience, requestDigest, jti, iat }) {
  const claims = { jti, iat, aud: audience, ath: await tokenHash(leafToken), request_digest: requestDigest };
  const refused = checkClaims(claims);
  if (refused !== null) throw new Refused(refused);
  return sign(claims, key, { typ: PROOF_TYP });
}

/**
 * Verify that the holder of the leaf of `chain` signed this request, now, for this audience.
 *
 * @param {unknown} token
 * @param {object} expected
 * @param {import("./chain.js").VerifiedChain} expected.chain
 * @param {string} expected.audience
 * @param {string} expected.requestDigest
 * @param {number} expected.now seconds since 1970
 * @param {number} [expected.maxAgeSeconds]
 * @param {number} [expected.skewSeconds]
 * @returns {Promise<VerifiedProof | Refusal>}
 */
export async function verifyProof(
  token,
  {
    chain,
    audience,
    requestDigest,
    now,
    maxAgeSeconds = DEFAULT_PROOF_SECONDS,
    skewSeconds = DEFAULT_SKEW_SECONDS,
  },
) {
  const envelope = parseEnvelope(token, { typ: PROOF_TYP, hasKid: false });
  if (envelope instanceof Refusal) return envelope;
  const { holder } = chain.leaf;
  const claims = envelope.unverifiedClaims;
  const refused = (await checkSignature(envelope, holder)) ?? checkClaims(claims);
  if (refused !== null) return refused;
  const { jti, iat, aud, ath, request_digest: signed } = claims;
  if (aud !== audience) return new Refusal(Reason.AUD_MISMATCH, "the proof is for another audience");
  if (ath !== chain.leafHash) return new Refusal(Reason.ATH_MISMATCH, "the proof is for another leaf");
  if (signed !== requestDigest)
    return new Refusal(Reason.REQUEST_MISMATCH, "the proof is for another request");
  // Written so that a `now` that is no number refuses.
  if (!(iat <= now + skewSeconds)) return new Refusal(Reason.IAT_IN_FUTURE, "the proof is from the future");
  const replayUntil = iat + maxAgeSeconds;
  if (!(now < replayUntil)) {
    return new Refusal(Reason.PROOF_TOO_OLD, `the proof is over ${maxAgeSeconds} seconds old`);
  }
  return { jti, thumbprint: holder.thumbprint, iat, replayUntil };
}

/**
 * @param {Record<string, unknown>} claims
 * @returns {Refusal | null}
 */
function checkClaims(claims) {
  if (!hasOnly(claims, CLAIMS)) {
    return new Refusal(Reason.CLAIM_UNKNOWN, "a proof has `jti iat aud ath request_digest` only");
  }
  if (!isName(member(claims, "jti"))) return new Refusal(Reason.JTI_INVALID, "`jti` is a string");
  if (!isDate(member(claims, "iat"))) {
    return new Refusal(Reason.IAT_INVALID, "`iat` is an integer, seconds since 1970");
  }
  if (!isUri(member(claims, "aud"))) return new Refusal(Reason.AUD_INVALID, "`aud` is one string");
  if (!isHash(member(claims, "ath")))
    return new Refusal(Reason.ATH_MISMATCH, "`ath` is a SHA-256 in base64url");
  return isName(member(claims, "request_digest"))
    ? null
    : new Refusal(Reason.REQUEST_MISMATCH, "`request_digest` is a string");
}
