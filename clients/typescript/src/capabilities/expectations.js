/**
 * What every kind of token is held against: issuer, audience, lifetime, dates and revocations.
 *
 * @module
 */

import { Reason, Refusal } from "./reasons.js";

export const DEFAULT_MAX_LIFETIME_SECONDS = 86_400;
export const DEFAULT_SKEW_SECONDS = 60;

/**
 * What an issuer signed against what its verifier expects, character by character.
 *
 * @param {import("./claims.js").TokenClaims} token
 * @param {{ issuer: string, audience: string, seconds: number }} expected
 * @returns {Refusal | null}
 */
export function checkExpected(token, { issuer, audience, seconds }) {
  if (token.iss !== issuer) return new Refusal(Reason.ISS_MISMATCH, "`iss` is not the expected issuer");
  if (token.aud !== audience) return new Refusal(Reason.AUD_MISMATCH, "`aud` is not this audience");
  return checkLifetime(token, seconds);
}

/**
 * The dates of a token at `now`. Skew forgives a clock that is behind; it never extends a life.
 *
 * @param {{ iat: number, exp: number, nbf: number | null }} dates
 * @param {number} now seconds since 1970
 * @param {number} skewSeconds
 * @returns {Refusal | null}
 */
export function checkDates({ iat, exp, nbf }, now, skewSeconds) {
  // RFC 7519, section 4.1.4: "on or after". Written so that a `now` that is no number has expired.
  if (!(now < exp)) return new Refusal(Reason.EXPIRED, `it expired at ${exp}`);
  if (nbf !== null && !(nbf <= now + skewSeconds)) {
    return new Refusal(Reason.NOT_YET_VALID, `it is valid from ${nbf}`);
  }
  return iat <= now + skewSeconds ? null : new Refusal(Reason.IAT_IN_FUTURE, `it was issued at ${iat}`);
}

/**
 * Refuse a token that lives for longer than the configured longest lifetime, whoever signed it.
 *
 * @param {{ iat: number, exp: number }} dates
 * @param {number} seconds
 * @returns {Refusal | null}
 */
export function checkLifetime({ iat, exp }, seconds) {
  return exp - iat <= seconds
    ? null
    : new Refusal(Reason.LIFETIME_TOO_LONG, `it lives for over ${seconds} seconds`);
}
