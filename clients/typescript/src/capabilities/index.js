/**
 * Capabilities: signed, attenuable, delegated (spec section 7). The token profile without a network.
 *
 *     const chain = await narrow([root], main, { holder: child.public, entries, jti, iat });
 *     const proof = await prove(chain.at(-1), child, { audience, requestDigest, jti, iat });
 *     const found = await verifyChain(chain, { now, audience, issuer, keys, revoked }); // or a Refusal
 *
 * Time, keys and revocations are arguments, and a refusal is a value with a stable code (`Reason`).
 *
 * @module
 */

export { NotCanonical, canonicalJson } from "../canonical-json.js";
export { argumentsDigest, requestDigest } from "../digests.js";
export { checkAccess, checkCall } from "./calls.js";
export { recheck, verifyChain, verifyStructure } from "./chain.js";
export { parseEntries, widening } from "./entries.js";
export { issueRoot, narrow, newJti, nowSeconds } from "./issuing.js";
export {
  BadKey,
  PublicKey,
  SigningKey,
  generateKey,
  publicKey,
  publishedKeys,
  signingKeyFromJwk,
} from "./keys.js";
export { checkLine, explainLine } from "./lines.js";
export { prove, verifyProof } from "./proofs.js";
export { Reason, Refusal, Refused } from "./reasons.js";
export { NOTHING_REVOKED, parseRevocations } from "./revocations.js";
export { verifyTicket } from "./tickets.js";

/** @typedef {import("./calls.js").CallAccess} CallAccess */
/** @typedef {import("./calls.js").ToolCall} ToolCall */
/** @typedef {import("./chain.js").VerifiedChain} VerifiedChain */
/** @typedef {import("./chain.js").VerifiedLink} VerifiedLink */
/** @typedef {import("./claims.js").Ancestor} Ancestor */
/** @typedef {import("./entries.js").Entry} Entry */
/** @typedef {import("./entries.js").EntryJson} EntryJson */
/** @typedef {import("./keys.js").Signer} Signer */
/** @typedef {import("./proofs.js").VerifiedProof} VerifiedProof */
/** @typedef {import("./reasons.js").Component} Component */
/** @typedef {import("./reasons.js").ReasonCode} ReasonCode */
/** @typedef {import("./revocations.js").Revocations} Revocations */
/** @typedef {import("./tickets.js").Ticket} Ticket */
