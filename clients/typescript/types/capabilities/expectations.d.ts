/**
 * What an issuer signed against what its verifier expects, character by character.
 *
 * @param {import("./claims.js").TokenClaims} token
 * @param {{ issuer: string, audience: string, seconds: number }} expected
 * @returns {Refusal | null}
 */
export function checkExpected(token: import("./claims.js").TokenClaims, { issuer, audience, seconds }: {
    issuer: string;
    audience: string;
    seconds: number;
}): Refusal | null;
/**
 * The dates of a token at `now`. Skew forgives a clock that is behind; it never extends a life.
 *
 * @param {{ iat: number, exp: number, nbf: number | null }} dates
 * @param {number} now seconds since 1970
 * @param {number} skewSeconds
 * @returns {Refusal | null}
 */
export function checkDates({ iat, exp, nbf }: {
    iat: number;
    exp: number;
    nbf: number | null;
}, now: number, skewSeconds: number): Refusal | null;
/**
 * Refuse a token that lives for longer than the configured longest lifetime, whoever signed it.
 *
 * @param {{ iat: number, exp: number }} dates
 * @param {number} seconds
 * @returns {Refusal | null}
 */
export function checkLifetime({ iat, exp }: {
    iat: number;
    exp: number;
}, seconds: number): Refusal | null;
export const DEFAULT_MAX_LIFETIME_SECONDS: 86400;
export const DEFAULT_SKEW_SECONDS: 60;
import { Refusal } from "./reasons.js";
