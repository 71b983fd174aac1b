/**
 * A complete answer: its status, its media type without parameters, its body.
 *
 * @typedef {object} Incoming
 * @property {number} status
 * @property {string} mediaType
 * @property {Uint8Array} body
 */
/**
 * A request before it is sent.
 *
 * @typedef {object} Ask
 * @property {string} path
 * @property {"GET" | "POST"} [method]
 * @property {string} [body]
 * @property {boolean} [isRepeatable] sent twice it has one effect, and the second answer is as good as the
 *   first
 * @property {number} [waitSeconds] how long the service may hold the answer back, because it was asked to
 */
/**
 * How a client asks.
 *
 * @typedef {object} Terms
 * @property {string} baseUrl
 * @property {Headers} headers
 * @property {number} deadlineSeconds for a request with all its repeats
 * @property {number} attempts how often a request may be sent that is safe to repeat unchanged
 * @property {typeof globalThis.fetch} fetch
 */
/**
 * The JSON value of an answer with status 200.
 *
 * @param {Ask} ask
 * @param {Terms} terms
 * @param {AbortSignal} [signal]
 * @returns {Promise<unknown>}
 * @throws {DecisionUnavailable} for every other end
 */
export function answered(ask: Ask, terms: Terms, signal?: AbortSignal): Promise<unknown>;
/**
 * Let so much time pass.
 *
 * @param {number} milliseconds
 * @param {AbortSignal} [signal]
 */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void>;
/**
 * Throw what a status other than 200 means; `problem` has the members of an RFC 9457 body, or none.
 *
 * @param {number} status
 * @param {Record<string, unknown>} problem
 * @returns {never}
 */
export function refuse(status: number, problem: Record<string, unknown>): never;
/** A longer answer is not read to its end. */
export const MAX_ANSWER_BYTES: number;
export const FIRST_PAUSE_MS: 50;
/**
 * A complete answer: its status, its media type without parameters, its body.
 */
export type Incoming = {
    status: number;
    mediaType: string;
    body: Uint8Array;
};
/**
 * A request before it is sent.
 */
export type Ask = {
    path: string;
    method?: "GET" | "POST";
    body?: string;
    /**
     * sent twice it has one effect, and the second answer is as good as the
     * first
     */
    isRepeatable?: boolean;
    /**
     * how long the service may hold the answer back, because it was asked to
     */
    waitSeconds?: number;
};
/**
 * How a client asks.
 */
export type Terms = {
    baseUrl: string;
    headers: Headers;
    /**
     * for a request with all its repeats
     */
    deadlineSeconds: number;
    /**
     * how often a request may be sent that is safe to repeat unchanged
     */
    attempts: number;
    fetch: typeof globalThis.fetch;
};
