/**
 * The key of a JWK: exactly `kty`, `crv` and `x`.
 *
 * @param {unknown} jwk
 * @returns {Promise<PublicKey>}
 * @throws {BadKey}
 */
export function publicKey(jwk: unknown): Promise<PublicKey>;
/**
 * The Ed25519 keys of a JWK Set by `kid`. Keys of other types and for other uses are not loaded (RFC 7517,
 * section 5): nothing verifies under them.
 *
 * @param {unknown} jwks
 * @returns {Promise<Map<string, PublicKey>>}
 * @throws {BadKey} for a set that can be read in two ways
 */
export function publishedKeys(jwks: unknown): Promise<Map<string, PublicKey>>;
/**
 * The key of a published JWK, which may say what it is for; `null` when that is something else here.
 *
 * @param {unknown} jwk
 * @returns {Promise<PublicKey | null>}
 * @throws {BadKey} for an Ed25519 key that is malformed, or comes with its private part
 */
export function publishedKey(jwk: unknown): Promise<PublicKey | null>;
/**
 * A new key, from the system's randomness.
 *
 * @param {{ extractable?: boolean }} [options] `false` for a key that never leaves WebCrypto
 * @returns {Promise<SigningKey>}
 */
export function generateKey({ extractable }?: {
    extractable?: boolean;
}): Promise<SigningKey>;
/**
 * The key of a private JWK: `kty`, `crv`, `x` and `d`, where `x` must belong to `d`.
 *
 * @param {unknown} jwk
 * @returns {Promise<SigningKey>}
 * @throws {BadKey}
 */
export function signingKeyFromJwk(jwk: unknown): Promise<SigningKey>;
/** RFC 9278: what a derived link names its issuer by. */
export const THUMBPRINT_URN: "urn:ietf:params:oauth:jwk-thumbprint:sha-256:";
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
}
/** A key that verifies. Two are the same when their `x` is. */
export class PublicKey {
    /**
     * Use `publicKey`.
     *
     * @param {string} x
     * @param {string} thumbprint
     * @param {CryptoKey} key
     */
    constructor(x: string, thumbprint: string, key: CryptoKey);
    /** The public key, base64url (RFC 8037, section 2). */
    x: string;
    /** RFC 7638, SHA-256, base64url. */
    thumbprint: string;
    /** @returns {PublicJwk} exactly `kty`, `crv` and `x` */
    get jwk(): PublicJwk;
    /** The key as an issuer (RFC 9278). */
    get urn(): string;
    /** @param {PublicKey | null | undefined} other */
    equals(other: PublicKey | null | undefined): boolean;
    /**
     * Whether `signature` is this key's over `data`.
     *
     * @param {Uint8Array<ArrayBuffer>} signature
     * @param {Uint8Array<ArrayBuffer>} data
     * @returns {Promise<boolean>}
     */
    verifies(signature: Uint8Array<ArrayBuffer>, data: Uint8Array<ArrayBuffer>): Promise<boolean>;
    #private;
}
/** A key that signs. Its private part is in no log: it is no property. */
export class SigningKey {
    /**
     * @param {CryptoKey} privateKey
     * @param {PublicKey} publicKey
     */
    constructor(privateKey: CryptoKey, publicKey: PublicKey);
    public: PublicKey;
    /** The thumbprint. */
    get kid(): string;
    /**
     * @param {Uint8Array<ArrayBuffer>} signingInput
     * @returns {Promise<Uint8Array<ArrayBuffer>>}
     */
    sign(signingInput: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>>;
    /**
     * The key with its private part `d`: for a key store only.
     *
     * @returns {Promise<PrivateJwk>}
     * @throws {BadKey} for a key that was made to stay inside
     */
    privateJwk(): Promise<PrivateJwk>;
    #private;
}
export type PublicJwk = {
    kty: "OKP";
    crv: "Ed25519";
    x: string;
};
export type PrivateJwk = PublicJwk & {
    d: string;
};
/**
 * What signs: a key in hand (`SigningKey`), or one that stays elsewhere, as in a KMS.
 */
export type Signer = {
    /**
     * how headers name the key; opaque to verifiers
     */
    kid: string;
    /**
     * what verifies it
     */
    public: PublicKey;
    /**
     * the 64 bytes
     * of an Ed25519 signature (RFC 8032) over `signingInput` itself and no digest
     */
    sign: (signingInput: Uint8Array<ArrayBuffer>) => Promise<Uint8Array<ArrayBuffer>>;
};
