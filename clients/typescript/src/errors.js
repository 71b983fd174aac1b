/**
 * Every way to be left without an answer, or without a safe way to act on one. Each is a refusal: none of
 * them may be read as an allow. Messages are lower case and hold neither the API key nor the arguments of the
 * call.
 *
 * @module
 */

/** No answer was received, so the call must not run. Always thrown as one of its subclasses. */
export class DecisionUnavailable extends Error {
  name = "DecisionUnavailable";
}

/**
 * The request cannot be written as JSON (NaN, an integer beyond ±(2^53−1), a lone surrogate, a foreign type).
 */
export class RequestNotEncodable extends DecisionUnavailable {
  name = "RequestNotEncodable";
}

/** The deadline passed before an answer began. */
export class Timeout extends DecisionUnavailable {
  name = "Timeout";
}

/** The connection failed before an answer began. */
export class Unreachable extends DecisionUnavailable {
  name = "Unreachable";
}

/** The caller's own signal ended the wait. What was asked may have been done. */
export class Aborted extends DecisionUnavailable {
  name = "Aborted";
}

/**
 * Something answered, but not with an answer that may be acted on. Also thrown when an answer broke off, and
 * for an allow that contradicts itself or has expired.
 */
export class MalformedAnswer extends DecisionUnavailable {
  name = "MalformedAnswer";

  /**
   * @param {string} message
   * @param {{ brokeOff?: boolean, cause?: unknown }} [options]
   */
  constructor(message, { brokeOff = false, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    /** The connection ended before the answer was whole: what was asked may have been done. */
    this.brokeOff = brokeOff;
  }
}

/** The service, or a proxy before it, answered with a status of 500 or more. */
export class ServerFailure extends DecisionUnavailable {
  name = "ServerFailure";

  /**
   * @param {string} message
   * @param {{ status: number, code: string | null }} problem
   */
  constructor(message, { status, code }) {
    super(message);
    this.status = status;
    /** The machine code of the problem, or `null` when the body was not one. */
    this.code = code;
  }
}

/** The service refused the request, with an RFC 9457 problem and a status of 400 to 499. */
export class RequestRefused extends DecisionUnavailable {
  name = "RequestRefused";

  /**
   * @param {string} message
   * @param {{ status: number, code: string, detail: string, state: string | null }} problem
   */
  constructor(message, { status, code, detail, state }) {
    super(message);
    this.status = status;
    this.code = code;
    this.detail = detail;
    /** Where the operation or the approval stands that the request was about. */
    this.state = state;
  }
}
