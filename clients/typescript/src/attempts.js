/**
 * Names of tries. One whose tool was not begun is used again by the next try of the same call: so a decision
 * that began the act, and whose answer was lost, does not keep its own call from running. Kept in memory
 * alone: after a crash nobody knows whether a try had begun.
 *
 * @module
 */

const MAX_UNUSED = 1024;

export class Attempts {
  /** @type {Map<string, string>} */
  #unused = new Map();

  /**
   * A name that nobody else holds.
   *
   * @param {string} call
   */
  take(call) {
    const found = this.#unused.get(call);
    this.#unused.delete(call);
    return found ?? crypto.randomUUID();
  }

  /**
   * Its tool was not begun.
   *
   * @param {string} call
   * @param {string} attempt
   */
  giveBack(call, attempt) {
    this.#unused.set(call, attempt);
    for (const oldest of this.#unused.keys()) {
      if (this.#unused.size <= MAX_UNUSED) break;
      this.#unused.delete(oldest);
    }
  }
}
