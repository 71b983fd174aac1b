/**
 * Tickets: what an endpoint or a sandbox driver verifies offline, with a key set and a revocation list. The
 * chain itself never leaves for a tool server (spec section 7); the service signs a ticket with an allow.
 *
 * @module
 */

import { NotCanonical } from "../canonical-json.js";
import { argumentsDigest } from "../digests.js";
import { ENVELOPE_CLAIMS, parseAncestors, parseTokenClaims } from "./claims.js";
import { TICKET_TYP, checkSignature, keyFor, parseEnvelope } from "./envelope.js";
import { DEFAULT_SKEW_SECONDS, checkDates, checkExpected } from "./expectations.js";
import { Reason, Refusal } from "./reasons.js";
import { checkRevoked } from "./revocations.js";
import { hasExactly, hasOnly, isHash, isName, member } from "./values.js";

const MAX_TICKET_SECONDS = 900;
const TEXTS = ["tool", "fingerprint", "arguments_digest", "decision_id"];
const CLAIMS = new Set([...ENVELOPE_CLAIMS, ...TEXTS, "cnf", "anc"]);

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
export async function verifyTicket(token, expected) {
  const { jwks, issuer, audience, now, skewSeconds = DEFAULT_SKEW_SECONDS } = expected;
  const envelope = parseEnvelope(token, { typ: TICKET_TYP, hasKid: true });
  if (envelope instanceof Refusal) return envelope;
  const key = keyFor(envelope, jwks);
  if (key instanceof Refusal) return key;
  const forged = await checkSignature(envelope, key);
  if (forged !== null) return forged;
  const ticket = parsed(envelope.unverifiedClaims);
  if (ticket instanceof Refusal) return ticket;
  const seconds = expected.maxLifetimeSeconds ?? MAX_TICKET_SECONDS;
  return (
    checkExpected(ticket.token, { issuer, audience, seconds }) ??
    checkDates(ticket.token, now, skewSeconds) ??
    (await checkTheCall(ticket, expected)) ??
    checkNotRevoked(ticket, expected.revoked) ??
    ticket
  );
}

/**
 * @param {Ticket} ticket
 * @param {TicketExpectations} expected
 * @returns {Promise<Refusal | null>}
 */
async function checkTheCall(ticket, { fingerprint, arguments: used, holderThumbprint }) {
  if (ticket.fingerprint !== fingerprint) {
    return new Refusal(Reason.FINGERPRINT_MISMATCH, "the ticket is for another call");
  }
  let digest;
  try {
    digest = await argumentsDigest(used);
  } catch (error) {
    if (error instanceof NotCanonical) return new Refusal(Reason.ARGUMENTS_MISMATCH, error.message);
    throw error;
  }
  if (ticket.argumentsDigest !== digest) {
    return new Refusal(Reason.ARGUMENTS_MISMATCH, "the ticket is for other arguments");
  }
  return ticket.holderThumbprint === (holderThumbprint ?? null)
    ? null
    : new Refusal(Reason.HOLDER_MISMATCH, "the ticket is for the holder of another key");
}

/**
 * @param {Ticket} ticket
 * @param {import("./revocations.js").Revocations} revoked
 * @returns {Refusal | null}
 */
function checkNotRevoked({ token, holderThumbprint, ancestors }, revoked) {
  if (revoked.jtis.has(token.jti)) return new Refusal(Reason.REVOKED_JTI, "the ticket is revoked");
  if (holderThumbprint !== null && revoked.holders.has(holderThumbprint)) {
    return new Refusal(Reason.REVOKED_HOLDER, "the holder's key is revoked");
  }
  return checkRevoked(ancestors, revoked);
}

/**
 * @param {Record<string, any>} claims
 * @returns {Ticket | Refusal}
 */
function parsed(claims) {
  if (!hasOnly(claims, CLAIMS)) {
    return new Refusal(Reason.CLAIM_UNKNOWN, "the ticket holds a claim that tickets do not have");
  }
  const token = parseTokenClaims(claims);
  if (token instanceof Refusal) return token;
  for (const name of TEXTS) {
    if (!isName(member(claims, name))) {
      return new Refusal(Reason.TICKET_CLAIM_INVALID, `\`${name}\` is a string`);
    }
  }
  const cnf = member(claims, "cnf");
  if (cnf !== undefined && (!hasExactly(cnf, "jkt") || !isHash(cnf.jkt))) {
    return new Refusal(Reason.CNF_INVALID, "`cnf` of a ticket has exactly `jkt`");
  }
  const ancestors = Object.hasOwn(claims, "anc") ? parseAncestors(claims.anc) : [];
  if (ancestors instanceof Refusal) return ancestors;
  const actsItself = !Object.hasOwn(claims, "act") || ancestors[0]?.sub === token.sub;
  return {
    token,
    tool: claims.tool,
    fingerprint: claims.fingerprint,
    argumentsDigest: claims.arguments_digest,
    decisionId: claims.decision_id,
    onBehalfOf: actsItself ? null : token.sub,
    holderThumbprint: cnf?.jkt ?? null,
    ancestors,
  };
}
