/**
 * Hosts in canonical URIs: lower-case names and addresses by value, in the one spelling of the service.
 *
 * @module
 */

import { fromPunycode, hasOneDirection } from "./labels.js";

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const ENDS_IN_A_NUMBER = /^(?:[0-9]+|0x[0-9a-f]*)$/;
const MARK_FIRST = /^\p{M}/u;
const PORT = /^[1-9][0-9]{0,4}$/;
const BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const IPV4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`);
const MAX_NAME_CHARACTERS = 253;

/**
 * The domains that the host `text` is in, narrowest first: none for an address. `null` when `text` is no host
 * in its one spelling: an IPv6 address stands in brackets.
 *
 * @param {string} text
 * @returns {readonly string[] | null}
 */
export function hostDomains(text) {
  if (text.startsWith("[")) return isIpv6(text) ? [] : null;
  if (text.length > MAX_NAME_CHARACTERS) return null;
  const labels = text.split(".");
  // WHATWG URL, host parsing: what ends in a number is an IPv4 address.
  if (ENDS_IN_A_NUMBER.test(labels[labels.length - 1] ?? "")) return IPV4.test(text) ? [] : null;
  if (!labels.every((label) => LABEL.test(label) && (!label.startsWith("xn--") || isALabel(label))))
    return null;
  return labels.map((_, start) => labels.slice(start).join("."));
}

/**
 * Host and port of `host`, `host:port` or `[v6]:port`; the port is empty where there is none.
 *
 * @param {string} text
 * @returns {readonly [string, string] | null}
 */
export function splitPort(text) {
  const colon = text.indexOf(":", text.lastIndexOf("]") + 1);
  const [host, port] = colon < 0 ? [text, ""] : [text.slice(0, colon), text.slice(colon + 1)];
  if (colon >= 0 && (!PORT.test(port) || Number(port) >= 2 ** 16)) return null;
  return hostDomains(host) === null ? null : [host, port];
}

/** @param {string} text */
function isIpv6(text) {
  if (serializedHost(text) !== text) return false;
  const [head = "", tail] = text.slice(1, -1).split("::");
  const before = groupsOf(head);
  const after = groupsOf(tail ?? "");
  const zeros = tail === undefined ? 0 : 8 - before.length - after.length;
  const groups = [...before, ...Array(zeros).fill("0"), ...after].map((group) => Number.parseInt(group, 16));
  const number = groups.reduce((sum, group) => (sum << 16n) | BigInt(group), 0n);
  const top = number >> 32n;
  // What is an IPv4 address inside is spelled as one: mapped and compatible (RFC 4291), translated (RFC
  // 2765), NAT64 (RFC 6052, RFC 8215) and 6to4 (RFC 3056).
  return !(
    top === 0xffffn ||
    top === 0x64ff9bn << 64n ||
    top === 0xffffn << 16n ||
    (top === 0n && number > 1n) ||
    number >> 112n === 0x2002n ||
    number >> 80n === 0x64ff9b0001n
  );
}

/** @param {string} half of an IPv6 address */
function groupsOf(half) {
  return half === "" ? [] : half.split(":");
}

/**
 * Whether `xn--…` is the one spelling of a label that UTS #46 takes: what it decodes to comes back as it was,
 * by the URL parser of the platform. Not the label itself: browsers take any that is spelled in ASCII. And
 * those parsers leave out the rule on directions, and know no marks that are newer than their tables.
 *
 * @param {string} label
 */
function isALabel(label) {
  const text = fromPunycode(label.slice("xn--".length));
  return text !== null && !MARK_FIRST.test(text) && hasOneDirection(text) && serializedHost(text) === label;
}

/**
 * @param {string} host
 * @returns {string | null} as the WHATWG URL parser writes it
 */
function serializedHost(host) {
  try {
    return new URL(`http://${host}/`).hostname;
  } catch {
    return null;
  }
}
