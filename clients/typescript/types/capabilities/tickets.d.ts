/**
 * A ticket that holds, for the one call that was compared with it.
 *
 * @typedef {object} Ticket
 * @property {import("./claims.js").TokenClaims} token
 * @property {string} tool `server/name`
 * @property {string} fingerprint
 * @property {string} argumentsDigest
 * @property {string} decisionId
 * @property {string | null} onBehalfOf the user that is acted for; `null` where an agent acts for nobody
 * @property {string | null} holderThumbprint
 * @property {readonly import("./claims.js").Ancestor[]} ancestors
 */
/**
 * @typedef {object} TicketExpectations
 * @property {import("./chain.js").Keys} jwks the service's keys by `kid` (`publishedKeys`)
 * @property {string} issuer
 * @property {string} audience
 * @property {string} fingerprint
 * @property {object} arguments those that are about to be used
 * @property {string | null} holderThumbprint of the key which the caller proved to hold; `null` if it proved
 *   none
 * @property {number} now seconds since 1970
 * @property {import("./revocations.js").Revocations} revoked
 * @property {number} [skewSeconds]
 * @property {number} [maxLifetimeSeconds]
 */
/**
 * Verify a ticket for the call at hand. A ticket that is bound to a key is refused without it, and one that
 * is not bound is refused with it.
 *
 * @param {unknown} token
 * @param {TicketExpectations} expected
 * @returns {Promise<Ticket | Refusal>}
 */
export function verifyTicket(token: unknown, expected: TicketExpectations): Promise<Ticket | Refusal>;
/**
 * A ticket that holds, for the one call that was compared with it.
 */
export type Ticket = {
    token: import("./claims.js").TokenClaims;
    /**
     * `server/name`
     */
    tool: string;
    fingerprint: string;
    argumentsDigest: string;
    decisionId: string;
    /**
     * the user that is acted for; `null` where an agent acts for nobody
     */
    onBehalfOf: string | null;
    holderThumbprint: string | null;
    ancestors: readonly import("./claims.js").Ancestor[];
};
export type TicketExpectations = {
    /**
     * the service's keys by `kid` (`publishedKeys`)
     */
    jwks: import("./chain.js").Keys;
    issuer: string;
    audience: string;
    fingerprint: string;
    /**
     * those that are about to be used
     */
    arguments: object;
    /**
     * of the key which the caller proved to hold; `null` if it proved
     * none
     */
    holderThumbprint: string | null;
    /**
     * seconds since 1970
     */
    now: number;
    revoked: import("./revocations.js").Revocations;
    skewSeconds?: number;
    maxLifetimeSeconds?: number;
};
import { Refusal } from "./reasons.js";
