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
    /**
     * @param {string} message
     * @param {RefusalFacts} facts
     */
    constructor(message: string, { tool, code, next, decision, cause }: RefusalFacts);
    /** Whether the tool may have taken effect, by this try or by an earlier one. */
    mayHaveRun: boolean;
    tool: string;
    code: string;
    next: readonly string[];
    decision: import("./model.js").Decision | null;
    /** Name and reason of each rule that refused. */
    get rules(): {
        rule: string;
        reason: string;
    }[];
    /** Whether the same call may be answered otherwise later. */
    get retryUnchanged(): boolean;
    /** What to hand the model in place of a result. */
    forModel(): string;
    /** @protected */
    protected lead(): string;
}
/** The service decided: no. `decision` names the rule, or the stage that refused. */
export class CallDenied extends CallRefused {
}
/** A person has to agree, and has not yet. Send the same call with the same ids later. */
export class ApprovalPending extends CallRefused {
    /**
     * @param {string} message
     * @param {{ tool: string, decision: Decision, approval: import("./model.js").Approval, cause?: unknown }}
     *   facts
     */
    constructor(message: string, { tool, decision, approval, cause }: {
        tool: string;
        decision: Decision;
        approval: import("./model.js").Approval;
        cause?: unknown;
    });
    approval: Readonly<{
        id: string;
        state: string;
        url: string | null;
        expiresAt: Date | null;
    }>;
}
/** A person said no, or the request ended without a yes; `state` says which. */
export class ApprovalRefused extends CallRefused {
    /**
     * @param {string} message
     * @param {object} facts
     * @param {string} facts.tool
     * @param {Decision} facts.decision
     * @param {string} facts.state
     * @param {Readonly<import("./outcomes.js").ApprovalStatus> | null} [facts.status]
     */
    constructor(message: string, { tool, decision, state, status }: {
        tool: string;
        decision: Decision;
        state: string;
        status?: Readonly<import("./outcomes.js").ApprovalStatus> | null | undefined;
    });
    state: string;
    status: Readonly<import("./outcomes.js").ApprovalStatus> | null;
}
/** Another try of this very call has begun, and its lease has not ended: it may take effect still. */
export class CallInProgress extends CallRefused {
}
/** This very call ran before, and is not run again. `outcome` is what came of it. */
export class AlreadyDone extends CallRefused {
    /**
     * @param {string} message
     * @param {{ tool: string, decision: Decision, outcome: Readonly<import("./outcomes.js").Standing> }} facts
     */
    constructor(message: string, { tool, decision, outcome }: {
        tool: string;
        decision: Decision;
        outcome: Readonly<import("./outcomes.js").Standing>;
    });
    outcome: Readonly<import("./outcomes.js").Standing>;
}
/** It may have taken effect, and that is not known. It must be looked up, not tried again. */
export class OutcomeUnknown extends CallRefused {
}
/** The allow is bound to something that this runtime does not do. */
export class ObligationUnmet extends CallRefused {
}
/** What the call is about cannot be told, or is not what was decided on. Resolve and ask again. */
export class IdentityRefused extends CallRefused {
}
/** The call was allowed, but it must not begin: it was cancelled, say. Nothing ran. */
export class StartRefused extends CallRefused {
}
/** There is no decision. `cause` is the `DecisionUnavailable` that says why. */
export class NoDecision extends CallRefused {
    /**
     * @param {string} message
     * @param {{ tool: string, cause?: unknown }} facts
     */
    constructor(message: string, { tool, cause }: {
        tool: string;
        cause?: unknown;
    });
}
export type Decision = import("./model.js").Decision;
export type RefusalFacts = {
    /**
     * `server/name`
     */
    tool: string;
    code: string;
    /**
     * what may be tried, in the words of the wire (`change_arguments`,
     * `wait`, …)
     */
    next?: readonly string[];
    decision?: Decision | null;
    cause?: unknown;
};
