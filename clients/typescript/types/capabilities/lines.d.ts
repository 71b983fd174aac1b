/**
 * The verdict on one line; never throws for what the line holds.
 *
 * @param {Uint8Array<ArrayBuffer> | string} line
 * @returns {Promise<{ result: "accept" | "reject", reason: string }>}
 */
export function checkLine(line: Uint8Array<ArrayBuffer> | string): Promise<{
    result: "accept" | "reject";
    reason: string;
}>;
/**
 * Why `line` is refused, with the link and in words; `null` when it is accepted.
 *
 * @param {Uint8Array<ArrayBuffer> | string} line
 * @returns {Promise<Refusal | null>}
 */
export function explainLine(line: Uint8Array<ArrayBuffer> | string): Promise<Refusal | null>;
import { Refusal } from "./reasons.js";
