/** @typedef {import("./model.js").Decision} Decision */
/** @typedef {import("./guard.js").Shared} Shared */
/**
 * @typedef {Readonly<Record<string, unknown>>} Claims `context.resolved`: by JSON Pointer, what it leads to
 */
/**
 * One call, and how it is to be guarded.
 *
 * @typedef {object} GuardedCall
 * @property {string} tool `server/name`
 * @property {string} server
 * @property {string} name
 * @property {Record<string, unknown>} arguments
 * @property {Readonly<Record<string, unknown>> | undefined} provenance
 * @property {Readonly<Record<string, unknown>>} context ids included
 * @property {string} attempt
 * @property {boolean} isRead it was declared to change nothing: then nothing is told of how it went
 * @property {number} approvalSeconds how long an approval is waited for; 0 is not at all
 * @property {import("./guard.js").CallSettings["resolve"]} [resolve]
 * @property {string} [advertisedDigest]
 * @property {boolean} [ticket]
 * @property {number} [timeoutSeconds]
 * @property {AbortSignal} [signal]
 */
/**
 * What may run now.
 *
 * @param {GuardedCall} call
 * @param {Shared} shared
 * @returns {Promise<Permitted>}
 * @throws {CallRefused}
 */
export function permission(call: GuardedCall, shared: Shared, ...args: any[]): Promise<Permitted>;
export type Decision = import("./model.js").Decision;
export type Shared = import("./guard.js").Shared;
/**
 * `context.resolved`: by JSON Pointer, what it leads to
 */
export type Claims = Readonly<Record<string, unknown>>;
/**
 * One call, and how it is to be guarded.
 */
export type GuardedCall = {
    /**
     * `server/name`
     */
    tool: string;
    server: string;
    name: string;
    arguments: Record<string, unknown>;
    provenance: Readonly<Record<string, unknown>> | undefined;
    /**
     * ids included
     */
    context: Readonly<Record<string, unknown>>;
    attempt: string;
    /**
     * it was declared to change nothing: then nothing is told of how it went
     */
    isRead: boolean;
    /**
     * how long an approval is waited for; 0 is not at all
     */
    approvalSeconds: number;
    resolve?: import("./guard.js").CallSettings["resolve"];
    advertisedDigest?: string;
    ticket?: boolean;
    timeoutSeconds?: number;
    signal?: AbortSignal;
};
import { Permitted } from "./permitted.js";
