/**
 * RFC 7515, section 2: the URL-safe alphabet without padding.
 *
 * @param {Uint8Array} data
 * @returns {string}
 */
export function base64url(data: Uint8Array): string;
/**
 * The bytes of `text`, or `null` where another text would have the same ones: padding, white space, the
 * standard alphabet, a length that no bytes have, unused trailing bits that are not zero (RFC 4648, 3.5).
 *
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer> | null}
 */
export function fromBase64url(text: string): Uint8Array<ArrayBuffer> | null;
/**
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export function sha256(data: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
/**
 * The digest of `data` as tokens write it: 43 characters.
 *
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Promise<string>}
 */
export function sha256Base64url(data: Uint8Array<ArrayBuffer>): Promise<string>;
/**
 * `sha256:` and the hex SHA-256 of the RFC 8785 form of `value`.
 *
 * @param {unknown} value
 * @returns {Promise<string>}
 * @throws {import("./canonical-json.js").NotCanonical}
 */
export function jsonDigest(value: unknown): Promise<string>;
/**
 * What a proof of possession signs, and a decision answers: the request body less `capability` and `proof`
 * (spec section 1), as it is sent.
 *
 * @param {object} body
 * @returns {Promise<string>}
 * @throws {import("./canonical-json.js").NotCanonical}
 */
export function requestDigest(body: object): Promise<string>;
/**
 * What a ticket binds: the canonical arguments of the decision, with defaults.
 *
 * @param {object} argumentsOfTool
 * @returns {Promise<string>}
 * @throws {import("./canonical-json.js").NotCanonical}
 */
export function argumentsDigest(argumentsOfTool: object): Promise<string>;
