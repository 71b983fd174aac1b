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
export function parseLink(claims: Record<string, any>, { isRoot }: {
    isRoot: boolean;
}): Promise<LinkClaims | Refusal>;
/**
 * `iss aud sub act jti iat exp nbf`, by themselves.
 *
 * @param {Record<string, any>} claims
 * @returns {TokenClaims | Refusal}
 */
export function parseTokenClaims(claims: Record<string, any>): TokenClaims | Refusal;
/**
 * `cnf.jwk` (RFC 7800): a key itself; one by name could not be checked offline.
 *
 * @param {unknown} cnf
 * @returns {Promise<import("./keys.js").PublicKey | Refusal>}
 */
export function parseHolder(cnf: unknown): Promise<import("./keys.js").PublicKey | Refusal>;
/**
 * The elements of `anc`, in a root or a ticket.
 *
 * @param {unknown} anc
 * @returns {readonly Ancestor[] | Refusal}
 */
export function parseAncestors(anc: unknown): readonly Ancestor[] | Refusal;
/**
 * The depth alone, as a claim that may be absent has it.
 *
 * @param {unknown} value
 * @returns {Refusal | null}
 */
export function checkDepth(value: unknown): Refusal | null;
/**
 * Whether `value` can be an issuer or an audience.
 *
 * @param {unknown} value
 * @returns {value is string}
 */
export function isUri(value: unknown): value is string;
/** The cap on `del_depth` that no token can raise. */
export const MAX_DELEGATIONS: 8;
/** @type {ReadonlySet<string>} */
export const ENVELOPE_CLAIMS: ReadonlySet<string>;
/** @type {ReadonlySet<string>} */
export const ROOT_CLAIMS: ReadonlySet<string>;
/**
 * One link above a root that came out of a server-side narrowing: an element of `anc`.
 */
export type Ancestor = {
    /**
     * link hash
     */
    link: string;
    jti: string;
    /**
     * thumbprint of its holder's key (the member is named as in RFC 9449)
     */
    jkt: string;
    /**
     * the agent who held it
     */
    sub: string;
};
/**
 * What every token of the profile says. Dates are seconds since 1970, in UTC.
 */
export type TokenClaims = {
    iss: string;
    aud: string;
    sub: string;
    /**
     * `act.sub`, or `sub` where there is none
     */
    agent: string;
    jti: string;
    iat: number;
    exp: number;
    nbf: number | null;
};
/**
 * What one link says.
 */
export type LinkClaims = {
    token: TokenClaims;
    holder: import("./keys.js").PublicKey;
    entries: readonly import("./entries.js").Entry[];
    depth: number;
    maxDepth: number;
    parHash: string | null;
    ancestors: readonly Ancestor[];
};
import { Refusal } from "./reasons.js";
