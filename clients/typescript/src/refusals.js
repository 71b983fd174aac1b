/**
 * Why a guarded call did not run, or must not run again: each is a `CallRefused`, with words for a model.
 *
 * @module
 */

/** @type {Readonly<Record<string, string>>} */
const NEXT_WORDS = {
  change_arguments: "change the arguments",
  request_approval: "ask for an approval",
  wait: "wait",
  query_status: "ask what became of the call",
  escalate: "ask a person",
  stop: "leave it",
};

/** @typedef {import("./model.js").Decision} Decision */

/**
 * @typedef {object} RefusalFacts
 * @property {string} tool `server/name`
 * @property {string} code
 * @property {readonly string[]} [next] what may be tried, in the words of the wire (`change_arguments`,
 *   `wait`, …)
 * @property {Decision | null} [decision]
 * @property {unknown} [cause]
 */

/** The call does not run now. Never to be answered by running it another way. */
export class CallRefused extends Error {
  name = "CallRefused";
  /** Whether the tool may have taken effect, by this try or by an earlier one. */
  mayHaveRun = false;

  /**
   * @param {string} message
   * @param {RefusalFacts} facts
   */
  constructor(message, { tool, code, next = ["stop"], decision = null, cause }) {
    super(message, cause === undefined ? undefined : { cause });
    this.tool = tool;
    this.code = code;
    this.next = next;
    this.decision = decision;
  }

  /** Name and reason of each rule that refused. */
  get rules() {
    return (this.decision?.matched ?? []).map(({ rule, reason }) => ({ rule, reason }));
  }

  /** Whether the same call may be answered otherwise later. */
  get retryUnchanged() {
    return this.decision?.retryUnchanged ?? false;
  }

  /** What to hand the model in place of a result. */
  forModel() {
    const parts = [`${this.lead()}: ${withoutStop(this.message)}.`];
    for (const { message, pointer } of this.decision?.errors ?? []) {
      parts.push(`${withoutStop(message)} (at \`${pointer || "/"}\`).`);
    }
    for (const { rule, reason } of this.rules) {
      if (!this.message.includes(rule))
        parts.push(reason ? `Rule \`${rule}\`: ${withoutStop(reason)}.` : `Rule \`${rule}\`.`);
    }
    const steps = this.next.map((step) => NEXT_WORDS[step] ?? step);
    if (steps.length > 0) parts.push(`What you may do: ${steps.join(", or ")}.`);
    if (!this.retryUnchanged) parts.push("The same call again is not answered otherwise.");
    return parts.join(" ");
  }

  /** @protected */
  lead() {
    return this.mayHaveRun ? `The call of \`${this.tool}\` may have run` : `\`${this.tool}\` did not run`;
  }
}

/** @param {string} words */
function withoutStop(words) {
  return words.replace(/\.+$/, "");
}

/** The service decided: no. `decision` names the rule, or the stage that refused. */
export class CallDenied extends CallRefused {
  name = "CallDenied";
}

/** A person has to agree, and has not yet. Send the same call with the same ids later. */
export class ApprovalPending extends CallRefused {
  name = "ApprovalPending";

  /**
   * @param {string} message
   * @param {{ tool: string, decision: Decision, approval: import("./model.js").Approval, cause?: unknown }}
   *   facts
   */
  constructor(message, { tool, decision, approval, cause }) {
    super(message, { tool, code: decision.code, next: ["wait"], decision, cause });
    this.approval = approval;
  }

  /** With the same ids, once somebody has answered. */
  get retryUnchanged() {
    return true;
  }
}

/** A person said no, or the request ended without a yes; `state` says which. */
export class ApprovalRefused extends CallRefused {
  name = "ApprovalRefused";

  /**
   * @param {string} message
   * @param {object} facts
   * @param {string} facts.tool
   * @param {Decision} facts.decision
   * @param {string} facts.state
   * @param {Readonly<import("./outcomes.js").ApprovalStatus> | null} [facts.status]
   */
  constructor(message, { tool, decision, state, status = null }) {
    const next = status === null ? decision.next : ["change_arguments", "stop"];
    super(message, { tool, code: `approval.${state}`, next, decision });
    this.state = state;
    this.status = status;
  }

  /** A no stays a no. */
  get retryUnchanged() {
    return false;
  }
}

/** Another try of this very call has begun, and its lease has not ended: it may take effect still. */
export class CallInProgress extends CallRefused {
  name = "CallInProgress";
  mayHaveRun = true;
}

/** This very call ran before, and is not run again. `outcome` is what came of it. */
export class AlreadyDone extends CallRefused {
  name = "AlreadyDone";
  mayHaveRun = true;

  /**
   * @param {string} message
   * @param {{ tool: string, decision: Decision, outcome: Readonly<import("./outcomes.js").Standing> }} facts
   */
  constructor(message, { tool, decision, outcome }) {
    super(message, { tool, code: decision.code, next: decision.next, decision });
    this.outcome = outcome;
  }

  /** @protected */
  lead() {
    const { state, externalId } = this.outcome;
    const came = externalId === null ? "nothing that is known by id" : `\`${externalId}\``;
    return `\`${this.tool}\` was called before (\`${state}\`, came of it: ${came})`;
  }
}

/** It may have taken effect, and that is not known. It must be looked up, not tried again. */
export class OutcomeUnknown extends CallRefused {
  name = "OutcomeUnknown";
  mayHaveRun = true;
}

/** The allow is bound to something that this runtime does not do. */
export class ObligationUnmet extends CallRefused {
  name = "ObligationUnmet";
}

/** What the call is about cannot be told, or is not what was decided on. Resolve and ask again. */
export class IdentityRefused extends CallRefused {
  name = "IdentityRefused";
}

/** The call was allowed, but it must not begin: it was cancelled, say. Nothing ran. */
export class StartRefused extends CallRefused {
  name = "StartRefused";
}

/** There is no decision. `cause` is the `DecisionUnavailable` that says why. */
export class NoDecision extends CallRefused {
  name = "NoDecision";

  /**
   * @param {string} message
   * @param {{ tool: string, cause?: unknown }} facts
   */
  constructor(message, { tool, cause }) {
    super(message, { tool, code: "decision.unavailable", next: ["wait", "stop"], cause });
  }

  /** With the same ids it never runs twice. */
  get retryUnchanged() {
    return true;
  }
}
