/** @typedef {import("./permitted.js").Permitted} Permitted */
/** @typedef {import("./permitted.js").Unsettled} Unsettled */
/** @typedef {Readonly<Record<string, unknown>>} Members */
/** @typedef {Members | ((args: Members) => Members)} Provenance labels by JSON Pointer, or what makes them */
/**
 * A class of errors, and the outcome that they mean. The first that fits counts.
 *
 * @typedef {readonly [new (...args: any[]) => unknown, import("./outcomes.js").OutcomeName]} Failure
 */
/**
 * What may be said of one call, or of every call of a tool.
 *
 * @typedef {object} CallSettings
 * @property {string} [traceId] ids that are not given are made at random; given anew with the same call after
 *   a crash, the call runs once
 * @property {string} [turnId]
 * @property {string} [toolCallId]
 * @property {string} [attempt] name of this one try; never give one again that may have run
 * @property {"read" | "change"} [effect] `read` where the tool changes nothing, so that nothing is told of
 *   how it went
 * @property {Provenance} [provenance]
 * @property {Members} [context]
 * @property {Iterable<Failure>} [failures]
 * @property {(args: Members) => Members | Promise<Members>} [resolve] from arguments to the claims of
 *   `context.resolved`, called before the decision and again before the tool runs
 * @property {string} [advertisedDigest]
 * @property {boolean} [ticket]
 * @property {number} [timeoutSeconds] how long the tool may take
 * @property {"wait" | "throw"} [onPending]
 * @property {AbortSignal} [signal] ends the wait for a decision or an approval, not the tool
 */
/**
 * @typedef {object} GuardOptions
 * @property {import("./client.js").DecideRequest["subject"]} subject of every call
 * @property {Members} [context] of every call (`cwd`, `sandbox_root`, `versions`, …)
 * @property {string} [traceId]
 * @property {Provenance} [provenance]
 * @property {"wait" | "throw"} [onPending] where a person has to agree: wait for at most `approvalSeconds`
 * @property {number} [approvalSeconds]
 * @property {Iterable<string>} [failOpenFor] tools (`server/name`) that run without a decision where the
 *   transport failed before any answer began. It holds only for calls with `effect: "read"`, never after any
 *   answer, and no longer for a tool that a decision showed to be above A0, or to connect. Each such run is
 *   logged.
 * @property {(request: import("./client.js").DecideRequest) => { capability?: readonly string[], proof?:
 *   string } | Promise<{ capability?: readonly string[], proof?: string }>} [present] capability and proof
 *   for each request
 * @property {(unsettled: Unsettled) => void} [onUnsettled] is told of outcomes that could not be told to the
 *   service
 * @property {{ warn: (message: string) => void }} [log] `console` where none is given
 */
/**
 * What the guards of one session share.
 *
 * @typedef {object} Shared
 * @property {import("./client.js").Client} client
 * @property {import("./client.js").DecideRequest["subject"]} subject
 * @property {number} approvalSeconds
 * @property {Set<string>} failOpenFor
 * @property {GuardOptions["present"]} present
 * @property {GuardOptions["onUnsettled"]} onUnsettled
 * @property {{ warn: (message: string) => void }} log
 * @property {Attempts} attempts
 */
/** Guards functions. See `GuardOptions`. */
export class Guard {
    /**
     * @param {import("./client.js").Client} client
     * @param {GuardOptions} options
     */
    constructor(client: import("./client.js").Client, options: GuardOptions);
    /**
     * The same guard with more said of its calls: the ids of a turn, say, or provenance.
     *
     * @param {CallSettings} settings
     * @returns {Guard}
     */
    with(settings: CallSettings): Guard;
    /**
     * A function that asks before it runs: with the arguments of the decision, or it throws a `CallRefused`.
     *
     * @template {object} A
     * @template R
     * @param {string} server
     * @param {string} name
     * @param {CallSettings} settings
     * @param {(args: A, permitted: Permitted) => R | Promise<R>} run
     * @returns {(args: A, settings?: CallSettings) => Promise<Awaited<R>>}
     */
    tool<A extends object, R>(server: string, name: string, settings: CallSettings, run: (args: A, permitted: Permitted) => R | Promise<R>): (args: A, settings?: CallSettings) => Promise<Awaited<R>>;
    /**
     * Ask, run, and tell how it went. What `run` throws is told as `failures` says, and thrown on; where that
     * means that nobody knows what came of it, it is the cause of an `OutcomeUnknown`.
     *
     * @template {object} A
     * @template R
     * @param {string} server
     * @param {string} name
     * @param {A} args
     * @param {CallSettings} settings
     * @param {(args: A, permitted: Permitted) => R | Promise<R>} run
     * @returns {Promise<Awaited<R>>}
     */
    call<A extends object, R>(server: string, name: string, args: A, settings: CallSettings, run: (args: A, permitted: Permitted) => R | Promise<R>): Promise<Awaited<R>>;
    /**
     * The same in parts: run the tool with the arguments of what is `permitted`, then `end` it.
     *
     * @param {string} server
     * @param {string} name
     * @param {object} args
     * @param {CallSettings} [settings]
     * @returns {Promise<Pending>}
     */
    begin(server: string, name: string, args: object, settings?: CallSettings): Promise<Pending>;
    /**
     * Tell how it ended: as `permitted` was told, or else by what was `thrown`, or that it succeeded.
     *
     * @param {Pending} pending
     * @param {{ error: unknown } | null} [thrown]
     * @returns {Promise<void>}
     */
    end(pending: Pending, thrown?: {
        error: unknown;
    } | null): Promise<void>;
    #private;
}
/** A call between its begin and its end. */
export class Pending {
    /**
     * @param {Permitted} permitted
     * @param {Iterable<Failure>} failures
     */
    constructor(permitted: Permitted, failures: Iterable<Failure>);
    permitted: import("./permitted.js").Permitted;
    /**
     * How it ended.
     *
     * @param {{ error: unknown } | null} thrown
     */
    ended(thrown: {
        error: unknown;
    } | null): import("./permitted.js").Ended;
    #private;
}
export type Permitted = import("./permitted.js").Permitted;
export type Unsettled = import("./permitted.js").Unsettled;
export type Members = Readonly<Record<string, unknown>>;
/**
 * labels by JSON Pointer, or what makes them
 */
export type Provenance = Members | ((args: Members) => Members);
/**
 * A class of errors, and the outcome that they mean. The first that fits counts.
 */
export type Failure = readonly [new (...args: any[]) => unknown, import("./outcomes.js").OutcomeName];
/**
 * What may be said of one call, or of every call of a tool.
 */
export type CallSettings = {
    /**
     * ids that are not given are made at random; given anew with the same call after
     * a crash, the call runs once
     */
    traceId?: string;
    turnId?: string;
    toolCallId?: string;
    /**
     * name of this one try; never give one again that may have run
     */
    attempt?: string;
    /**
     * `read` where the tool changes nothing, so that nothing is told of
     * how it went
     */
    effect?: "read" | "change";
    provenance?: Provenance;
    context?: Members;
    failures?: Iterable<Failure>;
    /**
     * from arguments to the claims of
     * `context.resolved`, called before the decision and again before the tool runs
     */
    resolve?: (args: Members) => Members | Promise<Members>;
    advertisedDigest?: string;
    ticket?: boolean;
    /**
     * how long the tool may take
     */
    timeoutSeconds?: number;
    onPending?: "wait" | "throw";
    /**
     * ends the wait for a decision or an approval, not the tool
     */
    signal?: AbortSignal;
};
export type GuardOptions = {
    /**
     * of every call
     */
    subject: import("./client.js").DecideRequest["subject"];
    /**
     * of every call (`cwd`, `sandbox_root`, `versions`, …)
     */
    context?: Members;
    traceId?: string;
    provenance?: Provenance;
    /**
     * where a person has to agree: wait for at most `approvalSeconds`
     */
    onPending?: "wait" | "throw";
    approvalSeconds?: number;
    /**
     * tools (`server/name`) that run without a decision where the
     * transport failed before any answer began. It holds only for calls with `effect: "read"`, never after any
     * answer, and no longer for a tool that a decision showed to be above A0, or to connect. Each such run is
     * logged.
     */
    failOpenFor?: Iterable<string>;
    /**
     * capability and proof
     * for each request
     */
    present?: (request: import("./client.js").DecideRequest) => {
        capability?: readonly string[];
        proof?: string;
    } | Promise<{
        capability?: readonly string[];
        proof?: string;
    }>;
    /**
     * is told of outcomes that could not be told to the
     * service
     */
    onUnsettled?: (unsettled: Unsettled) => void;
    /**
     * `console` where none is given
     */
    log?: {
        warn: (message: string) => void;
    };
};
/**
 * What the guards of one session share.
 */
export type Shared = {
    client: import("./client.js").Client;
    subject: import("./client.js").DecideRequest["subject"];
    approvalSeconds: number;
    failOpenFor: Set<string>;
    present: GuardOptions["present"];
    onUnsettled: GuardOptions["onUnsettled"];
    log: {
        warn: (message: string) => void;
    };
    attempts: Attempts;
};
import { Attempts } from "./attempts.js";
