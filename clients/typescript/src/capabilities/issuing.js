/**
 * Signing links: an issuer's roots, and children that a holder narrows offline. Whatever is signed has been
 * through the verifier's own parser, and a child through its comparison with the parent: a token that no
 * verifier would take is never made.
 *
 * @module
 */

import { NotCanonical, canonicalJson } from "../canonical-json.js";
import { base64url } from "../digests.js";
import { NotStrictJson, parseStrict } from "../strict-json.js";
import { checkNarrower } from "./chain.js";
import { parseLink } from "./claims.js";
import { LINK_TYP, MAX_TOKEN_CHARACTERS, linkHash, parseEnvelope, sign } from "./envelope.js";
import { Reason, Refusal, Refused } from "./reasons.js";

/** @typedef {readonly import("./entries.js").EntryJson[]} Entries elements of `authorization_details` */

/**
 * A root for `holder`.
 *
 * @param {import("./keys.js").Signer} key
 * @param {object} claims dates are seconds since 1970
 * @param {string} [claims.kid] the key's own where none is given
 * @param {string} claims.issuer
 * @param {string} claims.audience
 * @param {string} claims.subject
 * @param {string} [claims.agent]
 * @param {import("./keys.js").PublicKey} claims.holder
 * @param {Entries} claims.entries
 * @param {string} claims.jti
 * @param {number} claims.iat
 * @param {number} claims.exp
 * @param {number} [claims.nbf]
 * @param {number} claims.maxDepth
 * @param {readonly import("./claims.js").Ancestor[]} [claims.ancestors] handles of the chain that a
 *   server-side narrowing started from
 * @returns {Promise<string>}
 * @throws {Refused} for claims that no verifier would take
 */
export async function issueRoot(
  key,
  {
    kid = key.kid,
    issuer,
    audience,
    subject,
    agent,
    holder,
    entries,
    jti,
    iat,
    exp,
    nbf,
    maxDepth,
    ancestors = [],
  },
) {
  const claims = asRead({
    iss: issuer,
    aud: audience,
    sub: subject,
    act: agent === undefined ? undefined : { sub: agent },
    jti,
    iat,
    exp,
    nbf,
    cnf: { jwk: holder.jwk },
    authorization_details: entries,
    del_depth: 0,
    del_max_depth: maxDepth,
    anc: ancestors.length === 0 ? undefined : ancestors,
  });
  await parsed(claims, true);
  return signed(claims, key, kid);
}

/**
 * `chain` with one more link, for `holder`, signed by `key` of the leaf's holder. Needs no network.
 *
 * What is not given is the parent's: its entries, its expiry, its remaining depth. `agent` is the child's own
 * name; without one it acts as `sub`. The chain above the leaf is taken as it is: it was the holder's to
 * verify.
 *
 * @param {readonly string[]} chain
 * @param {import("./keys.js").SigningKey} key
 * @param {object} child dates are seconds since 1970
 * @param {import("./keys.js").PublicKey} child.holder
 * @param {Entries} [child.entries]
 * @param {string} [child.agent]
 * @param {string} child.jti
 * @param {number} child.iat
 * @param {number} [child.exp]
 * @param {number} [child.nbf]
 * @param {number} [child.maxDepth]
 * @returns {Promise<string[]>}
 * @throws {Refused} for anything wider, naming the component
 */
export async function narrow(chain, key, { holder, entries, agent, jti, iat, exp, nbf, maxDepth }) {
  const { parent, above } = await leaf(chain);
  if (!above.holder.equals(key.public)) {
    throw new Refused(new Refusal(Reason.HOLDER_MISMATCH, "the key is not that of the holder of the leaf"));
  }
  const claims = asRead({
    iss: key.public.urn,
    aud: above.token.aud,
    sub: above.token.sub,
    act: agent === undefined ? undefined : { sub: agent },
    jti,
    iat,
    exp: exp ?? above.token.exp,
    nbf,
    cnf: { jwk: holder.jwk },
    authorization_details: entries ?? above.entries.map((entry) => entry.json),
    del_depth: above.depth + 1,
    del_max_depth: maxDepth ?? above.maxDepth,
    par_hash: await linkHash(parent),
  });
  const refused = checkNarrower(await parsed(claims, false), above);
  if (refused instanceof Refusal) throw new Refused(refused);
  return [...chain, await signed(claims, key)];
}

/**
 * A new identifier: 128 random bits in base64url.
 *
 * @returns {string}
 */
export function newJti() {
  return base64url(crypto.getRandomValues(new Uint8Array(16)));
}

/**
 * Now, as tokens write it: whole seconds since 1970, in UTC.
 *
 * @returns {number}
 */
export function nowSeconds() {
  return Math.floor(Date.now() / 1000);
}

/** @param {readonly string[]} chain */
async function leaf(chain) {
  const isRoot = chain.length === 1;
  const last = chain[chain.length - 1];
  if (last === undefined) throw new Refused(new Refusal(Reason.CHAIN_EMPTY, "there is no link to narrow"));
  const parent = parseEnvelope(last, { typ: LINK_TYP, hasKid: isRoot });
  if (parent instanceof Refusal) throw new Refused(parent);
  return { parent, above: await parsed(parent.unverifiedClaims, isRoot) };
}

/**
 * The claims that are there, as they will be read back from the token.
 *
 * @param {object} claims
 * @returns {Record<string, any>}
 */
function asRead(claims) {
  try {
    return parseStrict(canonicalJson(claims), { keepFractions: true });
  } catch (error) {
    if (error instanceof NotCanonical || error instanceof NotStrictJson) {
      throw new Refused(new Refusal(Reason.TOKEN_JSON, error.message));
    }
    throw error;
  }
}

/**
 * @param {Record<string, any>} claims
 * @param {boolean} isRoot
 */
async function parsed(claims, isRoot) {
  const found = await parseLink(claims, { isRoot });
  if (found instanceof Refusal) throw new Refused(found);
  return found;
}

/**
 * @param {object} claims
 * @param {import("./keys.js").Signer} key
 * @param {string} [kid]
 */
async function signed(claims, key, kid) {
  const token = await sign(claims, key, { typ: LINK_TYP, kid });
  if (token.length > MAX_TOKEN_CHARACTERS) {
    throw new Refused(new Refusal(Reason.TOKEN_TOO_LARGE, "the link would be too large"));
  }
  return token;
}
