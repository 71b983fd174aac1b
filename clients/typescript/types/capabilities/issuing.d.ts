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
export function issueRoot(key: import("./keys.js").Signer, { kid, issuer, audience, subject, agent, holder, entries, jti, iat, exp, nbf, maxDepth, ancestors, }: {
    kid?: string | undefined;
    issuer: string;
    audience: string;
    subject: string;
    agent?: string | undefined;
    holder: import("./keys.js").PublicKey;
    entries: Entries;
    jti: string;
    iat: number;
    exp: number;
    nbf?: number | undefined;
    maxDepth: number;
    ancestors?: readonly import("./claims.js").Ancestor[] | undefined;
}): Promise<string>;
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
export function narrow(chain: readonly string[], key: import("./keys.js").SigningKey, { holder, entries, agent, jti, iat, exp, nbf, maxDepth }: {
    holder: import("./keys.js").PublicKey;
    entries?: Entries | undefined;
    agent?: string | undefined;
    jti: string;
    iat: number;
    exp?: number | undefined;
    nbf?: number | undefined;
    maxDepth?: number | undefined;
}): Promise<string[]>;
/**
 * A new identifier: 128 random bits in base64url.
 *
 * @returns {string}
 */
export function newJti(): string;
/**
 * Now, as tokens write it: whole seconds since 1970, in UTC.
 *
 * @returns {number}
 */
export function nowSeconds(): number;
/**
 * elements of `authorization_details`
 */
export type Entries = readonly import("./entries.js").EntryJson[];
