/** @typedef {import("./permitted.js").Ended} Ended */
/** @typedef {import("./permitted.js").Permitted} Permitted */
/**
 * Tell it. Where it is not known whether the report came through, its status is asked for first.
 *
 * @param {import("./client.js").Client} client
 * @param {Permitted} permitted by a decision
 * @param {Ended} ended
 * @returns {Promise<import("./permitted.js").Unsettled | null>} `null` when it was taken
 */
export function settled(client: import("./client.js").Client, permitted: Permitted, ended: Ended): Promise<import("./permitted.js").Unsettled | null>;
/**
 * Of a deny: a try that began without our knowing, since its answer was lost, and was cancelled since.
 * Somebody has to say that it did not run, or its lease ends by itself.
 *
 * @param {import("./client.js").Client} client
 * @param {import("./model.js").Decision} decision
 */
export function giveBack(client: import("./client.js").Client, { lease, operation }: import("./model.js").Decision): Promise<void>;
/**
 * Nothing ran. Told once, and lost without harm: then the lease ends by itself.
 *
 * @param {import("./client.js").Client} client
 * @param {Permitted} permitted
 */
export function abandon(client: import("./client.js").Client, permitted: Permitted): Promise<void>;
export type Ended = import("./permitted.js").Ended;
export type Permitted = import("./permitted.js").Permitted;
