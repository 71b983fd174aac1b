/**
 * Ed25519 keys (WebCrypto): those that verify, those that sign, their JWKs (RFC 8037) and thumbprints (RFC
 * 7638). A JWK is read member by member before WebCrypto sees it, so that one key has one spelling: a
 * thumbprint is the handle by which a holder is revoked.
 *
 * @module
 */

import { base64url, fromBase64url, sha256Base64url } from "../digests.js";
import { hasExactly, isObject, member } from "./values.js";

/** RFC 9278: what a derived link names its issuer by. */
export const THUMBPRINT_URN = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:";
const MAX_KEYS = 64;
const ED25519 = "Ed25519";
const FIELD_PRIME = 2n ** 255n - 19n;
const ORDER_8_Y = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n;
// y of the eight points of small order: with such a key anybody can sign (RFC 8032, section 7; Wycheproof).
const SMALL_ORDER = new Set([0n, 1n, FIELD_PRIME - 1n, ORDER_8_Y, FIELD_PRIME - ORDER_8_Y]);
// What a published key may say of itself besides; each must say what it is for here.
/** @type {Readonly<Record<string, (value: unknown) => boolean>>} */
const PUBLISHED = {
  use: (value) => value === "sig",
  alg: (value) => value === "EdDSA" || value === "Ed25519",
  key_ops: (value) => Array.isArray(value) && value.length === 1 && value[0] === "verify",
};

/** @typedef {{ kty: "OKP", crv: "Ed25519", x: string }} PublicJwk */
/** @typedef {PublicJwk & { d: string }} PrivateJwk */

/**
 * What signs: a key in hand (`SigningKey`), or one that stays elsewhere, as in a KMS.
 *
 * @typedef {object} Signer
 * @property {string} kid how headers name the key; opaque to verifiers
 * @property {PublicKey} public what verifies it
 * @property {(signingInput: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>} sign the 64 bytes
 *   of an Ed25519 signature (RFC 8032) over `signingInput` itself and no digest
 */

/** A key that is no Ed25519 key in its one spelling. Never echoes the key. */
export class BadKey extends Error {
  name = "BadKey";
}

/** A key that verifies. Two are the same when their `x` is. */
export class PublicKey {
  /** @type {CryptoKey} */
  #key;

  /**
   * Use `publicKey`.
   *
   * @param {string} x
   * @param {string} thumbprint
   * @param {CryptoKey} key
   */
  constructor(x, thumbprint, key) {
    /** The public key, base64url (RFC 8037, section 2). */
    this.x = x;
    /** RFC 7638, SHA-256, base64url. */
    this.thumbprint = thumbprint;
    this.#key = key;
    Object.freeze(this);
  }

  /** @returns {PublicJwk} exactly `kty`, `crv` and `x` */
  get jwk() {
    return { kty: "OKP", crv: ED25519, x: this.x };
  }

  /** The key as an issuer (RFC 9278). */
  get urn() {
    return THUMBPRINT_URN + this.thumbprint;
  }

  /** @param {PublicKey | null | undefined} other */
  equals(other) {
    return other instanceof PublicKey && other.x === this.x;
  }

  /**
   * Whether `signature` is this key's over `data`.
   *
   * @param {Uint8Array<ArrayBuffer>} signature
   * @param {Uint8Array<ArrayBuffer>} data
   * @returns {Promise<boolean>}
   */
  async verifies(signature, data) {
    return crypto.subtle.verify(ED25519, this.#key, signature, data);
  }
}

/** A key that signs. Its private part is in no log: it is no property. */
export class SigningKey {
  /** @type {CryptoKey} */
  #private;

  /**
   * @param {CryptoKey} privateKey
   * @param {PublicKey} publicKey
   */
  constructor(privateKey, publicKey) {
    this.#private = privateKey;
    this.public = publicKey;
    Object.freeze(this);
  }

  /** The thumbprint. */
  get kid() {
    return this.public.thumbprint;
  }

  /**
   * @param {Uint8Array<ArrayBuffer>} signingInput
   * @returns {Promise<Uint8Array<ArrayBuffer>>}
   */
  async sign(signingInput) {
    return new Uint8Array(await crypto.subtle.sign(ED25519, this.#private, signingInput));
  }

  /**
   * The key with its private part `d`: for a key store only.
   *
   * @returns {Promise<PrivateJwk>}
   * @throws {BadKey} for a key that was made to stay inside
   */
  async privateJwk() {
    if (!this.#private.extractable) throw new BadKey("the private key was made to be not exportable");
    const { d } = await crypto.subtle.exportKey("jwk", this.#private);
    return { ...this.public.jwk, d: String(d) };
  }
}

/**
 * The key of a JWK: exactly `kty`, `crv` and `x`.
 *
 * @param {unknown} jwk
 * @returns {Promise<PublicKey>}
 * @throws {BadKey}
 */
export async function publicKey(jwk) {
  if (!hasExactly(jwk, "kty", "crv", "x"))
    throw new BadKey("a key is an object of exactly `kty`, `crv` and `x`");
  if (jwk.kty !== "OKP" || jwk.crv !== ED25519) throw new BadKey("a key has `kty` `OKP` and `crv` `Ed25519`");
  const { x } = jwk;
  const raw = typeof x === "string" && x.length === 43 ? fromBase64url(x) : null;
  if (raw === null) throw new BadKey("`x` is 32 bytes in unpadded base64url");
  // RFC 8032, section 5.1.3: y has one encoding below p. Libraries take y + p for y, which would be a second
  // thumbprint for one key, and with it a way around a revocation.
  const y = littleEndian(raw) & (2n ** 255n - 1n);
  if (y >= FIELD_PRIME || SMALL_ORDER.has(y)) {
    throw new BadKey("`x` is no public key: not reduced, or of small order");
  }
  // RFC 7638, section 3.2: the required members in lexicographic order, without white space.
  const thumbprint = await sha256Base64url(
    new TextEncoder().encode(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`),
  );
  try {
    return new PublicKey(x, thumbprint, await crypto.subtle.importKey("raw", raw, ED25519, true, ["verify"]));
  } catch {
    throw new BadKey("`x` is no public key");
  }
}

/** @param {Uint8Array} data */
function littleEndian(data) {
  return data.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
}

/**
 * The Ed25519 keys of a JWK Set by `kid`. Keys of other types and for other uses are not loaded (RFC 7517,
 * section 5): nothing verifies under them.
 *
 * @param {unknown} jwks
 * @returns {Promise<Map<string, PublicKey>>}
 * @throws {BadKey} for a set that can be read in two ways
 */
export async function publishedKeys(jwks) {
  const keys = isObject(jwks) ? member(jwks, "keys") : undefined;
  if (!Array.isArray(keys) || keys.length > MAX_KEYS) {
    throw new BadKey(`a key set is an object with \`keys\`, a list of at most ${MAX_KEYS}`);
  }
  /** @type {Map<string, PublicKey>} */
  const found = new Map();
  const seen = new Set();
  for (const jwk of keys) {
    const kid = isObject(jwk) ? member(jwk, "kid") : undefined;
    if (typeof kid !== "string" || kid.length === 0 || kid.length > 256) {
      throw new BadKey("every key of a set has a `kid`");
    }
    if (seen.has(kid)) throw new BadKey("two keys of the set have one `kid`");
    seen.add(kid);
    const key = await publishedKey(jwk);
    if (key !== null) found.set(kid, key);
  }
  return found;
}

/**
 * The key of a published JWK, which may say what it is for; `null` when that is something else here.
 *
 * @param {unknown} jwk
 * @returns {Promise<PublicKey | null>}
 * @throws {BadKey} for an Ed25519 key that is malformed, or comes with its private part
 */
export async function publishedKey(jwk) {
  if (!isObject(jwk)) throw new BadKey("a key is an object");
  if (member(jwk, "kty") !== "OKP" || member(jwk, "crv") !== ED25519) return null;
  for (const [name, isAllowed] of Object.entries(PUBLISHED)) {
    if (Object.hasOwn(jwk, name) && !isAllowed(jwk[name])) return null;
  }
  const rest = Object.entries(jwk).filter(([name]) => name !== "kid" && !Object.hasOwn(PUBLISHED, name));
  return publicKey(Object.fromEntries(rest));
}

/**
 * A new key, from the system's randomness.
 *
 * @param {{ extractable?: boolean }} [options] `false` for a key that never leaves WebCrypto
 * @returns {Promise<SigningKey>}
 */
export async function generateKey({ extractable = true } = {}) {
  const pair = /** @type {CryptoKeyPair} */ (
    await crypto.subtle.generateKey(ED25519, extractable, ["sign", "verify"])
  );
  return ofPair(pair.privateKey, pair.publicKey);
}

/**
 * @param {CryptoKey} privateKey
 * @param {CryptoKey} verifying
 */
async function ofPair(privateKey, verifying) {
  const x = base64url(new Uint8Array(await crypto.subtle.exportKey("raw", verifying)));
  return new SigningKey(privateKey, await publicKey({ kty: "OKP", crv: ED25519, x }));
}

/**
 * The key of a private JWK: `kty`, `crv`, `x` and `d`, where `x` must belong to `d`.
 *
 * @param {unknown} jwk
 * @returns {Promise<SigningKey>}
 * @throws {BadKey}
 */
export async function signingKeyFromJwk(jwk) {
  if (!hasExactly(jwk, "kty", "crv", "x", "d") || typeof jwk.d !== "string") {
    throw new BadKey("a private key is an object of exactly `kty`, `crv`, `x` and `d`");
  }
  if (jwk.d.length !== 43 || fromBase64url(jwk.d) === null) {
    throw new BadKey("`d` is 32 bytes in unpadded base64url");
  }
  const verifying = await publicKey({ kty: jwk.kty, crv: jwk.crv, x: jwk.x });
  const members = { kty: "OKP", crv: ED25519, x: jwk.x, d: jwk.d };
  let key;
  try {
    key = new SigningKey(await crypto.subtle.importKey("jwk", members, ED25519, true, ["sign"]), verifying);
  } catch {
    throw new BadKey("`x` is not the public key of `d`");
  }
  // Whether implementations compare `x` with `d` at import differs; a signature tells for all of them.
  const probe = new TextEncoder().encode("is `x` the public key of `d`");
  if (!(await verifying.verifies(await key.sign(probe), probe))) {
    throw new BadKey("`x` is not the public key of `d`");
  }
  return key;
}
