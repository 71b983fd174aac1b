/**
 * Whether `text` holds a character that nobody can see, or white space (other than U+0020).
 *
 * @param {string} text
 * @param {{ mayHoldSpaces?: boolean }} [options]
 */
export function hasOddCharacter(text: string, { mayHoldSpaces }?: {
    mayHoldSpaces?: boolean;
}): boolean;
/** @param {string} text */
export function utf8Length(text: string): number;
/**
 * Whether `path` is absolute, in lexical normal form, and of lengths that a file system takes.
 *
 * @param {string} path
 */
export function isFilePath(path: string): boolean;
/**
 * Whether a server could find `.` or `..` in the path of a url, decoding it once or more often.
 *
 * @param {string} path ASCII
 */
export function decodesToDots(path: string): boolean;
/**
 * Whether `name` is the one name of a branch, or `refs/kind/name` for what is none.
 *
 * @param {string} name
 */
export function isRef(name: string): boolean;
/**
 * Whether `text` is an IBAN in electronic form with right check digits (ISO 13616, ISO 7064).
 *
 * @param {string} text
 */
export function isIban(text: string): boolean;
/**
 * What a canonical name of each kind may hold, as the service has it (spec section 4).
 *
 * @module
 */
/**
 * The port of a scheme where none is stated; stating it is another spelling.
 *
 * @type {ReadonlyMap<string, string>}
 */
export const PORTS: ReadonlyMap<string, string>;
