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
export function verifyChain(chain: unknown, expected: Expected & Moment): Promise<VerifiedChain | Refusal>;
/**
 * All of the profile that does not depend on the time or on revocations.
 *
 * @param {unknown} chain
 * @param {Expected} expected
 * @returns {Promise<VerifiedChain | Refusal>}
 */
export function verifyStructure(chain: unknown, expected: Expected): Promise<VerifiedChain | Refusal>;
/**
 * Whether a chain that was verified before may be used now: for every call, remembered or not.
 *
 * @param {VerifiedChain} chain
 * @param {Expected & Moment} expected
 * @returns {Refusal | null}
 */
export function recheck(chain: VerifiedChain, { audience, issuer, keys, now, revoked, skewSeconds }: Expected & Moment): Refusal | null;
/**
 * For each entry of the child the parent's that it fits under; or what the child changes or widens.
 *
 * @param {import("./claims.js").LinkClaims} child
 * @param {import("./claims.js").LinkClaims} parent
 * @param {number} [maxDepth]
 * @returns {readonly number[] | Refusal}
 */
export function checkNarrower(child: import("./claims.js").LinkClaims, parent: import("./claims.js").LinkClaims, maxDepth?: number): readonly number[] | Refusal;
/**
 * the issuer's, by `kid`
 */
export type Keys = ReadonlyMap<string, import("./keys.js").PublicKey>;
/**
 * One link whose signature, and whose fit under its parent, were checked.
 */
export type VerifiedLink = {
    agent: string;
    holder: import("./keys.js").PublicKey;
    linkHash: string;
    jti: string;
    /**
     * seconds since 1970
     */
    issuedAt: number;
    /**
     * seconds since 1970
     */
    expiresAt: number;
    /**
     * seconds since 1970
     */
    notBefore: number | null;
    entries: readonly import("./entries.js").Entry[];
    /**
     * for each entry the parent's entry that it fits under; empty for the
     * root
     */
    parents: readonly number[];
    depth: number;
    /**
     * what it can be revoked by
     */
    handles: import("./claims.js").Ancestor;
};
/**
 * A chain that holds, but for what `recheck` looks at.
 */
export type VerifiedChain = {
    issuer: string;
    audience: string;
    /**
     * on whose behalf
     */
    subject: string;
    rootKid: string;
    rootKey: import("./keys.js").PublicKey;
    /**
     * root first
     */
    links: readonly VerifiedLink[];
    /**
     * the link that acts
     */
    leaf: VerifiedLink;
    /**
     * of the root
     */
    ancestors: readonly import("./claims.js").Ancestor[];
    /**
     * every agent of the chain, first those of `anc`
     */
    agents: readonly string[];
    /**
     * what a proof's `ath` is: SHA-256 over the whole leaf token
     */
    leafHash: string;
    /**
     * the deepest `del_depth` that a descendant may have
     */
    maxDepth: number;
    /**
     * seconds since 1970: the earliest of the chain
     */
    expiresAt: number;
};
export type Expected = {
    audience: string;
    issuer: string;
    keys: Keys;
    maxDepth?: number;
    maxLifetimeSeconds?: number;
};
export type Moment = {
    /**
     * seconds since 1970
     */
    now: number;
    revoked: import("./revocations.js").Revocations;
    /**
     * forgives clocks for `iat` and `nbf`, never for `exp`
     */
    skewSeconds?: number;
};
import { Refusal } from "./reasons.js";
