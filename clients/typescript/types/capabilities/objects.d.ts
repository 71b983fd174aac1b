/**
 * The object of a canonical URI; `null` for another spelling or a kind that no capability can name.
 *
 * @param {string} uri
 * @returns {CanonicalObject | null}
 */
export function parseObject(uri: string): CanonicalObject | null;
/**
 * `text` percent-encoded, as UTF-8.
 *
 * @param {string} text
 * @param {string} [alsoEncoded]
 */
export function quote(text: string, alsoEncoded?: string): string;
/** A canonical URI, and the keys of all that it lies in (its own among them). */
export class CanonicalObject {
    /**
     * @param {string} uri
     * @param {readonly string[]} above its own key first
     */
    constructor(uri: string, above: readonly string[]);
    uri: string;
    key: string;
    /** @type {ReadonlySet<string>} */
    above: ReadonlySet<string>;
    /**
     * Whether `location` contains this object. Reflexive and transitive.
     *
     * @param {CanonicalObject} location
     */
    liesIn(location: CanonicalObject): boolean;
}
/**
 * the key of the object, then those of what contains it
 */
export type Keys = readonly string[] | null;
