/**
 * The domains that the host `text` is in, narrowest first: none for an address. `null` when `text` is no host
 * in its one spelling: an IPv6 address stands in brackets.
 *
 * @param {string} text
 * @returns {readonly string[] | null}
 */
export function hostDomains(text: string): readonly string[] | null;
/**
 * Host and port of `host`, `host:port` or `[v6]:port`; the port is empty where there is none.
 *
 * @param {string} text
 * @returns {readonly [string, string] | null}
 */
export function splitPort(text: string): readonly [string, string] | null;
