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
export function parseEnvelope(token: unknown, { typ, hasKid }: {
    typ: string;
    hasKid: boolean;
}): Envelope | Refusal;
/**
 * SHA-256 over the signing input: what a child's `par_hash`, budgets and revocations go by. Not over the
 * signature, so that a second signature of the same link is the same link.
 *
 * @param {Envelope} envelope
 */
export function linkHash(envelope: Envelope): Promise<string>;
/**
 * SHA-256 over the whole token: what a proof's `ath` is (RFC 9449, section 4.2).
 *
 * @param {string} token
 */
export function tokenHash(token: string): Promise<string>;
/**
 * The key that `kid` names: an exact look-up in the loaded map, never a path, a URL or a query.
 *
 * @param {Envelope} envelope
 * @param {ReadonlyMap<string, import("./keys.js").PublicKey>} keys
 * @returns {import("./keys.js").PublicKey | Refusal}
 */
export function keyFor(envelope: Envelope, keys: ReadonlyMap<string, import("./keys.js").PublicKey>): import("./keys.js").PublicKey | Refusal;
/**
 * Refuse a signature that is not `key`'s over exactly the bytes that were parsed.
 *
 * @param {Envelope} envelope
 * @param {import("./keys.js").PublicKey} key
 * @returns {Promise<Refusal | null>}
 */
export function checkSignature(envelope: Envelope, key: import("./keys.js").PublicKey): Promise<Refusal | null>;
/**
 * The compact JWS of `claims`.
 *
 * @param {object} claims
 * @param {import("./keys.js").Signer} key
 * @param {{ typ: string, kid?: string | undefined }} header
 * @returns {Promise<string>}
 * @throws {BadKey} for a signature that is not the key's
 */
export function sign(claims: object, key: import("./keys.js").Signer, { typ, kid }: {
    typ: string;
    kid?: string | undefined;
}): Promise<string>;
/** The one algorithm. RFC 9864 renames it `Ed25519`; one configured constant is what the profile has. */
export const ALG: "EdDSA";
export const LINK_TYP: "cap+jwt";
export const PROOF_TYP: "cap-pop+jwt";
export const TICKET_TYP: "cap-ticket+jwt";
export const MAX_TOKEN_CHARACTERS: 16384;
/**
 * One token, parsed. Its claims are unverified until `checkSignature` has passed.
 */
export type Envelope = {
    kid: string | null;
    unverifiedClaims: Record<string, any>;
    signingInput: Uint8Array<ArrayBuffer>;
    signature: Uint8Array<ArrayBuffer>;
    token: string;
};
import { Refusal } from "./reasons.js";
