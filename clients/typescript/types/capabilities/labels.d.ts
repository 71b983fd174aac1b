/**
 * The text of what stands behind `xn--`, lower case; `null` where it is no Punycode.
 *
 * @param {string} encoded
 * @returns {string | null}
 */
export function fromPunycode(encoded: string): string | null;
/**
 * Whether a label has no letter that is written from right to left, or is one of those alone.
 *
 * @param {string} label
 */
export function hasOneDirection(label: string): boolean;
