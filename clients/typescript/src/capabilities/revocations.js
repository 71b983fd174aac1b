/**
 * What has been revoked, as a value: by link hash, by `jti`, by holder's key (`GET /revocations`).
 *
 * @module
 */

import { Reason, Refusal } from "./reasons.js";
import { hasExactly, isHash, isName } from "./values.js";

/**
 * Three sets; whatever one of them names is refused, with everything beneath it.
 *
 * @typedef {object} Revocations
 * @property {ReadonlySet<string>} links link hashes
 * @property {ReadonlySet<string>} jtis
 * @property {ReadonlySet<string>} holders thumbprints of holders' keys: the handle for children made offline
 */

/** @type {Revocations} */
export const NOTHING_REVOKED = Object.freeze({ links: new Set(), jtis: new Set(), holders: new Set() });

/**
 * The list as `GET /revocations` gives it: `{"links": […], "jtis": […], "holders": […]}`.
 *
 * @param {unknown} value
 * @returns {Revocations}
 * @throws {TypeError} for anything else: a list that is not understood must not read as an empty one
 */
export function parseRevocations(value) {
  if (!hasExactly(value, "links", "jtis", "holders")) {
    throw new TypeError("a revocation list has exactly `links`, `jtis` and `holders`");
  }
  return {
    links: identifiers("links", value.links, isHash),
    jtis: identifiers("jtis", value.jtis, isName),
    holders: identifiers("holders", value.holders, isHash),
  };
}

/**
 * @param {string} name
 * @param {unknown} listed
 * @param {(value: unknown) => boolean} isOne
 * @returns {ReadonlySet<string>}
 */
function identifiers(name, listed, isOne) {
  if (!Array.isArray(listed) || !listed.every((item) => isOne(item))) {
    throw new TypeError(`\`${name}\` of a revocation list holds something else than its identifiers`);
  }
  return new Set(listed);
}

/**
 * Refuse if any of these is revoked by any handle.
 *
 * @param {Iterable<import("./claims.js").Ancestor>} ancestors
 * @param {Revocations} revoked
 * @returns {Refusal | null}
 */
export function checkRevoked(ancestors, revoked) {
  for (const { link, jti, jkt } of ancestors) {
    if (revoked.links.has(link)) return new Refusal(Reason.REVOKED_LINK, "a link of the chain is revoked");
    if (revoked.jtis.has(jti)) {
      return new Refusal(Reason.REVOKED_JTI, "a link of the chain is revoked by its `jti`");
    }
    if (revoked.holders.has(jkt)) {
      return new Refusal(Reason.REVOKED_HOLDER, "the key of a link's holder is revoked");
    }
  }
  return null;
}
