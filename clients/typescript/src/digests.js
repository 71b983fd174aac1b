/**
 * Digests and encodings: base64url, SHA-256 (WebCrypto), and the digests that requests and tickets carry.
 *
 * @module
 */

import { canonicalBytes } from "./canonical-json.js";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUES = new Map(Array.from(ALPHABET, (char, value) => [char, value]));

/**
 * RFC 7515, section 2: the URL-safe alphabet without padding.
 *
 * @param {Uint8Array} data
 * @returns {string}
 */
export function base64url(data) {
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of data) {
    held = (held << 8) | byte;
    for (bits += 8; bits >= 6; bits -= 6) text += ALPHABET[(held >> (bits - 6)) & 63];
    held &= (1 << bits) - 1;
  }
  return bits > 0 ? text + ALPHABET[(held << (6 - bits)) & 63] : text;
}

/**
 * The bytes of `text`, or `null` where another text would have the same ones: padding, white space, the
 * standard alphabet, a length that no bytes have, unused trailing bits that are not zero (RFC 4648, 3.5).
 *
 * @param {string} text
 * @returns {Uint8Array<ArrayBuffer> | null}
 */
export function fromBase64url(text) {
  if (text.length % 4 === 1) return null;
  const data = new Uint8Array(Math.floor((text.length * 3) / 4));
  let bits = 0;
  let held = 0;
  let at = 0;
  for (const char of text) {
    const value = VALUES.get(char);
    if (value === undefined) return null;
    held = (held << 6) | value;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      data[at++] = held >> bits;
      held &= (1 << bits) - 1;
    }
  }
  return held === 0 ? data : null;
}

/**
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function sha256(data) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", data));
}

/**
 * The digest of `data` as tokens write it: 43 characters.
 *
 * @param {Uint8Array<ArrayBuffer>} data
 * @returns {Promise<string>}
 */
export async function sha256Base64url(data) {
  return base64url(await sha256(data));
}

/**
 * `sha256:` and the hex SHA-256 of the RFC 8785 form of `value`.
 *
 * @param {unknown} value
 * @returns {Promise<string>}
 * @throws {import("./canonical-json.js").NotCanonical}
 */
export async function jsonDigest(value) {
  const digest = await sha256(canonicalBytes(value));
  return `sha256:${Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * What a proof of possession signs, and a decision answers: the request body less `capability` and `proof`
 * (spec section 1), as it is sent.
 *
 * @param {object} body
 * @returns {Promise<string>}
 * @throws {import("./canonical-json.js").NotCanonical}
 */
export async function requestDigest(body) {
  const rest = Object.entries(body).filter(([name]) => name !== "capability" && name !== "proof");
  return jsonDigest(Object.fromEntries(rest));
}

/**
 * What a ticket binds: the canonical arguments of the decision, with defaults.
 *
 * @param {object} argumentsOfTool
 * @returns {Promise<string>}
 * @throws {import("./canonical-json.js").NotCanonical}
 */
export async function argumentsDigest(argumentsOfTool) {
  return jsonDigest(argumentsOfTool);
}
