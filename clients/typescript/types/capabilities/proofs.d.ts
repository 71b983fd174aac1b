/**
 * A proof that holds. It is good once: whoever verifies inserts (thumbprint, `jti`) into a replay store,
 * atomically, and keeps it until `replayUntil`.
 *
 * @typedef {object} VerifiedProof
 * @property {string} jti
 * @property {string} thumbprint of the key that signed it
 * @property {number} iat
 * @property {number} replayUntil seconds since 1970: from here on the proof is too old
 */
/**
 * A proof for one request.
 *
 * @param {string} leafToken
 * @param {import("./keys.js").SigningKey} key
 * @param {{ audience: string, requestDigest: string, jti: string, iat: number }} claims `iat` in seconds
 *   since 1970
 * @returns {Promise<string>}
 * @throws {Refused} for claims that no verifier would take
 */
export function prove(leafToken: string, key: import("./keys.js").SigningKey, { audience, requestDigest, jti, iat }: {
    audience: string;
    requestDigest: string;
    jti: string;
    iat: number;
}): Promise<string>;
/**
 * Verify that the holder of the leaf of `chain` signed this request, now, for this audience.
 *
 * @param {unknown} token
 * @param {object} expected
 * @param {import("./chain.js").VerifiedChain} expected.chain
 * @param {string} expected.audience
 * @param {string} expected.requestDigest
 * @param {number} expected.now seconds since 1970
 * @param {number} [expected.maxAgeSeconds]
 * @param {number} [expected.skewSeconds]
 * @returns {Promise<VerifiedProof | Refusal>}
 */
export function verifyProof(token: unknown, { chain, audience, requestDigest, now, maxAgeSeconds, skewSeconds, }: {
    chain: import("./chain.js").VerifiedChain;
    audience: string;
    requestDigest: string;
    now: number;
    maxAgeSeconds?: number | undefined;
    skewSeconds?: number | undefined;
}): Promise<VerifiedProof | Refusal>;
/**
 * A proof that holds. It is good once: whoever verifies inserts (thumbprint, `jti`) into a replay store,
 * atomically, and keeps it until `replayUntil`.
 */
export type VerifiedProof = {
    jti: string;
    /**
     * of the key that signed it
     */
    thumbprint: string;
    iat: number;
    /**
     * seconds since 1970: from here on the proof is too old
     */
    replayUntil: number;
};
import { Refusal } from "./reasons.js";
