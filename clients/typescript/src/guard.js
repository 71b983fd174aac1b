/**
 * Guards: a tool runs only as the service decided, once, and the service is told how it ended.
 *
 *     const guard = new Guard(client, { subject: { agent: "coder-1", on_behalf_of: "ada" } });
 *     const send = guard.tool("mail", "send", {}, async ({ to, text }) => …);
 *
 * Whatever keeps the call from running is a `CallRefused`, and `CallRefused.forModel()` says why.
 *
 * @module
 */

import { Attempts } from "./attempts.js";
import { NotCanonical, canonicalJson } from "./canonical-json.js";
import { RequestNotEncodable } from "./errors.js";
import { permission } from "./guarding.js";
import { Outcome } from "./outcomes.js";
import { endedBy } from "./permitted.js";
import { NoDecision, OutcomeUnknown } from "./refusals.js";
import { settled } from "./settling.js";
import { parseStrict } from "./strict-json.js";

const DEFAULT_APPROVAL_SECONDS = 300;
const MAX_ARGUMENTS_DEPTH = 64;

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
  /** @type {Shared} */
  #shared;
  /** @type {CallSettings} */
  #settings;

  /**
   * @param {import("./client.js").Client} client
   * @param {GuardOptions} options
   */
  constructor(client, options) {
    const {
      subject,
      approvalSeconds = DEFAULT_APPROVAL_SECONDS,
      failOpenFor = [],
      present,
      onUnsettled,
    } = options;
    if (typeof failOpenFor === "string")
      throw new TypeError("`failOpenFor` holds names of tools, `server/name`");
    this.#shared = {
      client,
      subject: { ...subject },
      approvalSeconds,
      failOpenFor: new Set(failOpenFor),
      present,
      onUnsettled,
      log: options.log ?? console,
      attempts: new Attempts(),
    };
    this.#settings = {
      traceId: options.traceId ?? crypto.randomUUID(),
      ...stated({ provenance: options.provenance, context: options.context, onPending: options.onPending }),
    };
    checkSettings(this.#settings);
  }

  /**
   * The same guard with more said of its calls: the ids of a turn, say, or provenance.
   *
   * @param {CallSettings} settings
   * @returns {Guard}
   */
  with(settings) {
    checkSettings(settings);
    const guard = new Guard(this.#shared.client, { subject: this.#shared.subject });
    guard.#shared = this.#shared;
    guard.#settings = joined(this.#settings, settings);
    return guard;
  }

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
  tool(server, name, settings, run) {
    checkSettings(settings);
    return (args, more = {}) => this.call(server, name, args, joined(settings, more), run);
  }

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
  async call(server, name, args, settings, run) {
    const pending = await this.begin(server, name, args, settings);
    let result;
    try {
      result = await run(/** @type {A} */ (pending.permitted.arguments), pending.permitted);
    } catch (error) {
      await this.end(pending, { error });
      throw error;
    }
    await this.end(pending);
    return result;
  }

  /**
   * The same in parts: run the tool with the arguments of what is `permitted`, then `end` it.
   *
   * @param {string} server
   * @param {string} name
   * @param {object} args
   * @param {CallSettings} [settings]
   * @returns {Promise<Pending>}
   */
  async begin(server, name, args, settings = {}) {
    checkSettings(settings);
    const given = joined(this.#settings, settings);
    const tool = `${server}/${name}`;
    const { provenance, context = {} } = given;
    const ids = {
      trace_id: given.traceId,
      turn_id: given.turnId ?? "1",
      tool_call_id: given.toolCallId ?? crypto.randomUUID(),
    };
    const identity = JSON.stringify(Object.values(ids));
    const proposed = snapshot(tool, args);
    const attempt = given.attempt ?? this.#shared.attempts.take(identity);
    try {
      const permitted = await permission(
        {
          ...given,
          tool,
          server,
          name,
          arguments: proposed,
          provenance: typeof provenance === "function" ? provenance(proposed) : provenance,
          context: { ...context, ...ids },
          attempt,
          isRead: given.effect === "read",
          approvalSeconds: given.onPending === "throw" ? 0 : this.#shared.approvalSeconds,
        },
        this.#shared,
      );
      this.#note(permitted);
      return new Pending(permitted, given.failures ?? []);
    } catch (error) {
      this.#shared.attempts.giveBack(identity, attempt);
      throw error;
    }
  }

  /**
   * Tell how it ended: as `permitted` was told, or else by what was `thrown`, or that it succeeded.
   *
   * @param {Pending} pending
   * @param {{ error: unknown } | null} [thrown]
   * @returns {Promise<void>}
   */
  async end(pending, thrown = null) {
    const { permitted } = pending;
    const ended = pending.ended(thrown);
    if (!permitted.isSettled || permitted.decision === null) return;
    const unsettled = await settled(this.#shared.client, permitted, ended);
    if (unsettled !== null) {
      const { message } = unsettled.failure;
      this.#shared.log.warn(
        `that \`${permitted.tool}\` ended as \`${ended.outcome}\` could not be told (${message}): ` +
          `its operation \`${permitted.decision.decisionId}\` becomes unknown`,
      );
      this.#shared.onUnsettled?.(unsettled);
    }
    if (thrown !== null && ended.outcome === Outcome.UNKNOWN) throw unknownAfter(permitted, thrown.error);
  }

  /**
   * Only A0 without `connect` may ever fail open: what shows more does not again.
   *
   * @param {Permitted} permitted
   */
  #note({ tool, decision }) {
    const { failOpenFor, log } = this.#shared;
    if (decision === null || !failOpenFor.has(tool)) return;
    if (decision.authority === "A0" && decision.accesses.every(({ verb }) => verb !== "connect")) return;
    failOpenFor.delete(tool);
    log.warn(`\`${tool}\` does more than read what is at hand: it does not fail open any more`);
  }
}

/** A call between its begin and its end. */
export class Pending {
  #isOver = false;
  /** @type {Iterable<Failure>} */
  #failures;

  /**
   * @param {Permitted} permitted
   * @param {Iterable<Failure>} failures
   */
  constructor(permitted, failures) {
    this.permitted = permitted;
    this.#failures = failures;
  }

  /**
   * How it ended.
   *
   * @param {{ error: unknown } | null} thrown
   */
  ended(thrown) {
    if (this.#isOver) throw new Error("the call has ended already");
    this.#isOver = true;
    return endedBy(this.permitted, thrown, this.#failures);
  }
}

/**
 * In place of an error after which nobody knows what came of the call.
 *
 * @param {Permitted} permitted
 * @param {unknown} error
 */
function unknownAfter({ tool, decision }, error) {
  const kind = error instanceof Error ? error.name : typeof error;
  return new OutcomeUnknown(
    `it failed (\`${kind}\`), and may have taken effect all the same: do not repeat it before that is known`,
    { tool, code: "operation.unknown", next: ["query_status", "escalate", "stop"], decision, cause: error },
  );
}

/**
 * The arguments as they will be sent: what the caller does to its object meanwhile changes nothing.
 *
 * @param {string} tool
 * @param {object} args
 * @returns {Record<string, unknown>}
 */
function snapshot(tool, args) {
  try {
    return parseStrict(canonicalJson(args), { maxDepth: MAX_ARGUMENTS_DEPTH, maxValues: Infinity });
  } catch (error) {
    const why = error instanceof NotCanonical ? error.message : "they are nested too deeply";
    const cause = new RequestNotEncodable(`the arguments are not JSON: ${why}`);
    throw new NoDecision(`there is no decision on it: ${cause.message}`, { tool, cause });
  }
}

/**
 * @param {CallSettings} settings
 */
function checkSettings({ effect, onPending }) {
  // A misspelt word must not mean the other one.
  if (effect !== undefined && effect !== "read" && effect !== "change") {
    throw new TypeError("`effect` is `read` or `change`");
  }
  if (onPending !== undefined && onPending !== "wait" && onPending !== "throw") {
    throw new TypeError("`onPending` is `wait` or `throw`");
  }
}

/**
 * @param {CallSettings} settings
 * @param {CallSettings} more goes before
 * @returns {CallSettings}
 */
function joined(settings, more) {
  return { ...settings, ...stated(more), context: { ...settings.context, ...more.context } };
}

/**
 * Without what is undefined, so that it hides nothing.
 *
 * @template {object} T
 * @param {T} settings
 * @returns {any}
 */
function stated(settings) {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}
