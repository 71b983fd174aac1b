export class Attempts {
    /**
     * A name that nobody else holds.
     *
     * @param {string} call
     */
    take(call: string): string;
    /**
     * Its tool was not begun.
     *
     * @param {string} call
     * @param {string} attempt
     */
    giveBack(call: string, attempt: string): void;
    #private;
}
