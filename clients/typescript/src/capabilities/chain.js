/**
 * Verification of a capability: a chain of links, root first.
 *
 * `verifyStructure` does what can be remembered (parse, signatures, narrowing); `recheck` does what cannot
 * (keys in force, dates, revocations). `verifyChain` is the two. Time, keys and revocations are arguments.
 *
 * @module
 */

import { MAX_DELEGATIONS, parseLink } from "./claims.js";
import { fit } from "./entries.js";
import { LINK_TYP, checkSignature, keyFor, linkHash, parseEnvelope, tokenHash } from "./envelope.js";
import {
  DEFAULT_MAX_LIFETIME_SECONDS,
  DEFAULT_SKEW_SECONDS,
  checkDates,
  checkExpected,
  checkLifetime,
} from "./expectations.js";
import { Reason, Refusal } from "./reasons.js";
import { checkRevoked } from "./revocations.js";

/** @typedef {ReadonlyMap<string, import("./keys.js").PublicKey>} Keys the issuer's, by `kid` */

/**
 * One link whose signature, and whose fit under its parent, were checked.
 *
 * @typedef {object} VerifiedLink
 * @property {string} agent
 * @property {import("./keys.js").PublicKey} holder
 * @property {string} linkHash
 * @property {string} jti
 * @property {number} issuedAt seconds since 1970
 * @property {number} expiresAt seconds since 1970
 * @property {number | null} notBefore seconds since 1970
 * @property {readonly import("./entries.js").Entry[]} entries
 * @property {readonly number[]} parents for each entry the parent's entry that it fits under; empty for the
 *   root
 * @property {number} depth
 * @property {import("./claims.js").Ancestor} handles what it can be revoked by
 */

/**
 * A chain that holds, but for what `recheck` looks at.
 *
 * @typedef {object} VerifiedChain
 * @property {string} issuer
 * @property {string} audience
 * @property {string} subject on whose behalf
 * @property {string} rootKid
 * @property {import("./keys.js").PublicKey} rootKey
 * @property {readonly VerifiedLink[]} links root first
 * @property {VerifiedLink} leaf the link that acts
 * @property {readonly import("./claims.js").Ancestor[]} ancestors of the root
 * @property {readonly string[]} agents every agent of the chain, first those of `anc`
 * @property {string} leafHash what a proof's `ath` is: SHA-256 over the whole leaf token
 * @property {number} maxDepth the deepest `del_depth` that a descendant may have
 * @property {number} expiresAt seconds since 1970: the earliest of the chain
 */

/**
 * @typedef {object} Expected
 * @property {string} audience
 * @property {string} issuer
 * @property {Keys} keys
 * @property {number} [maxDepth]
 * @property {number} [maxLifetimeSeconds]
 */

/**
 * @typedef {object} Moment
 * @property {number} now seconds since 1970
 * @property {import("./revocations.js").Revocations} revoked
 * @property {number} [skewSeconds] forgives clocks for `iat` and `nbf`, never for `exp`
 */

/**
 * Verify `chain`, a list of compact JWS, root first, at `now`.
 *
 * @param {unknown} chain
 * @param {Expected & Moment} expected
 * @returns {Promise<VerifiedChain | Refusal>}
 */
export async function verifyChain(chain, expected) {
  const found = await verifyStructure(chain, expected);
  if (found instanceof Refusal) return found;
  return recheck(found, expected) ?? found;
}

/**
 * All of the profile that does not depend on the time or on revocations.
 *
 * @param {unknown} chain
 * @param {Expected} expected
 * @returns {Promise<VerifiedChain | Refusal>}
 */
export async function verifyStructure(chain, expected) {
  const { maxDepth = MAX_DELEGATIONS } = expected;
  // 1. The list, before anything in it is read.
  if (!Array.isArray(chain) || !chain.every((token) => typeof token === "string")) {
    return new Refusal(Reason.CHAIN_INVALID, "a capability is a list of compact JWS, root first");
  }
  const [first, ...rest] = chain;
  if (first === undefined) return new Refusal(Reason.CHAIN_EMPTY, "the chain holds no link");
  if (!(chain.length <= Math.min(maxDepth, MAX_DELEGATIONS) + 1)) {
    return new Refusal(Reason.CHAIN_TOO_LONG, `the chain holds ${chain.length} links`);
  }
  // 2. The root, under a key of the issuer.
  const root = await verifyRoot(first, expected);
  if (root instanceof Refusal) return root.at(0);
  const links = [await verified(root.envelope, root.claims, [])];
  // 3. Each link under its parent: first that it is its child, then that it is no wider.
  let { envelope, claims } = root;
  for (const [index, token] of rest.entries()) {
    const child = await verifyChild(token, envelope, claims, expected);
    if (child instanceof Refusal) return child.at(index + 1);
    ({ envelope, claims } = child);
    links.push(await verified(envelope, claims, child.parents));
  }
  const ancestors = root.claims.ancestors;
  return {
    issuer: expected.issuer,
    audience: expected.audience,
    subject: claims.token.sub,
    rootKid: root.envelope.kid ?? "",
    rootKey: root.key,
    links,
    leaf: /** @type {VerifiedLink} */ (links.at(-1)),
    ancestors,
    agents: [...ancestors, ...links.map((link) => link.handles)].map((item) => item.sub),
    leafHash: await tokenHash(envelope.token),
    maxDepth: Math.min(claims.maxDepth, maxDepth, MAX_DELEGATIONS),
    expiresAt: Math.min(...links.map((link) => link.expiresAt)),
  };
}

/**
 * Whether a chain that was verified before may be used now: for every call, remembered or not.
 *
 * @param {VerifiedChain} chain
 * @param {Expected & Moment} expected
 * @returns {Refusal | null}
 */
export function recheck(chain, { audience, issuer, keys, now, revoked, skewSeconds = DEFAULT_SKEW_SECONDS }) {
  // What is remembered for another tenant, or from before a key was withdrawn, must not answer.
  if (chain.issuer !== issuer) {
    return new Refusal(Reason.ISS_MISMATCH, "the chain was verified for another issuer", { link: 0 });
  }
  if (chain.audience !== audience) {
    return new Refusal(Reason.AUD_MISMATCH, "the chain was verified for another audience", { link: 0 });
  }
  if (!chain.rootKey.equals(keys.get(chain.rootKid))) {
    return new Refusal(Reason.KID_UNKNOWN, "the root's key is no longer loaded", { link: 0 });
  }
  for (const [index, link] of chain.links.entries()) {
    const dates = { iat: link.issuedAt, exp: link.expiresAt, nbf: link.notBefore };
    const refused = checkDates(dates, now, skewSeconds);
    if (refused !== null) return refused.at(index);
  }
  const above = checkRevoked(chain.ancestors, revoked);
  if (above !== null) return new Refusal(above.reason, "an ancestor of the root is revoked", { link: 0 });
  for (const [index, link] of chain.links.entries()) {
    const refused = checkRevoked([link.handles], revoked);
    if (refused !== null) return refused.at(index);
  }
  return null;
}

/**
 * @param {string} token
 * @param {Expected} expected
 */
async function verifyRoot(
  token,
  { issuer, audience, keys, maxLifetimeSeconds = DEFAULT_MAX_LIFETIME_SECONDS },
) {
  const envelope = parseEnvelope(token, { typ: LINK_TYP, hasKid: true });
  if (envelope instanceof Refusal) return envelope;
  const key = keyFor(envelope, keys);
  if (key instanceof Refusal) return key;
  const forged = await checkSignature(envelope, key);
  if (forged !== null) return forged;
  const claims = await parseLink(envelope.unverifiedClaims, { isRoot: true });
  if (claims instanceof Refusal) return claims;
  if (claims.depth !== 0) return new Refusal(Reason.DEPTH_STEP, "the depth of a root is 0");
  const refused = checkExpected(claims.token, { issuer, audience, seconds: maxLifetimeSeconds });
  return refused ?? { envelope, claims, key };
}

/**
 * A derived link under the one above it, which is taken as verified; with its entries' parents.
 *
 * @param {string} token
 * @param {import("./envelope.js").Envelope} parent
 * @param {import("./claims.js").LinkClaims} above
 * @param {Expected} expected
 */
async function verifyChild(
  token,
  parent,
  above,
  { maxDepth, maxLifetimeSeconds = DEFAULT_MAX_LIFETIME_SECONDS },
) {
  const envelope = parseEnvelope(token, { typ: LINK_TYP, hasKid: false });
  if (envelope instanceof Refusal) return envelope;
  // Nothing of the payload is looked at more closely before the parent's holder has signed it.
  const forged = await checkSignature(envelope, above.holder);
  if (forged !== null) return forged;
  const claims = await parseLink(envelope.unverifiedClaims, { isRoot: false });
  if (claims instanceof Refusal) return claims;
  if (claims.token.iss !== above.holder.urn) {
    return new Refusal(Reason.ISS_NOT_PARENT, "`iss` is not the thumbprint of the parent's key");
  }
  if (claims.parHash !== (await linkHash(parent))) {
    return new Refusal(Reason.PAR_HASH_MISMATCH, "`par_hash` is not that of the link above");
  }
  const parents = checkNarrower(claims, above, maxDepth);
  if (parents instanceof Refusal) return parents;
  return checkLifetime(claims.token, maxLifetimeSeconds) ?? { envelope, claims, parents };
}

/**
 * For each entry of the child the parent's that it fits under; or what the child changes or widens.
 *
 * @param {import("./claims.js").LinkClaims} child
 * @param {import("./claims.js").LinkClaims} parent
 * @param {number} [maxDepth]
 * @returns {readonly number[] | Refusal}
 */
export function checkNarrower(child, parent, maxDepth = MAX_DELEGATIONS) {
  if (child.token.aud !== parent.token.aud)
    return new Refusal(Reason.AUD_CHANGED, "`aud` is not the parent's");
  if (child.token.sub !== parent.token.sub)
    return new Refusal(Reason.SUB_CHANGED, "`sub` is not the parent's");
  if (child.depth !== parent.depth + 1) {
    return new Refusal(Reason.DEPTH_STEP, "`del_depth` is not the parent's plus 1");
  }
  if (!(child.depth <= Math.min(parent.maxDepth, maxDepth, MAX_DELEGATIONS))) {
    return new Refusal(Reason.DEPTH_EXCEEDED, "the parent may not delegate any further");
  }
  if (child.maxDepth > parent.maxDepth) {
    return new Refusal(Reason.MAX_DEPTH_RAISED, "`del_max_depth` is over the parent's");
  }
  if (child.token.exp > parent.token.exp) {
    return new Refusal(Reason.EXPIRY_WIDENED, "`exp` is after the parent's", { component: "E" });
  }
  return fit(child.entries, parent.entries);
}

/**
 * @param {import("./envelope.js").Envelope} envelope
 * @param {import("./claims.js").LinkClaims} claims
 * @param {readonly number[]} parents
 * @returns {Promise<VerifiedLink>}
 */
async function verified(envelope, { token, holder, entries, depth }, parents) {
  const link = await linkHash(envelope);
  return {
    agent: token.agent,
    holder,
    linkHash: link,
    jti: token.jti,
    issuedAt: token.iat,
    expiresAt: token.exp,
    notBefore: token.nbf,
    entries,
    parents,
    depth,
    handles: { link, jti: token.jti, jkt: holder.thumbprint, sub: token.agent },
  };
}
