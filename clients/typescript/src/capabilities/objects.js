/**
 * O: canonical URIs, and which of them lie in which (spec section 4).
 *
 * `parseObject` takes a URI only in the one spelling that the service gives it (`authz canonicalize`).
 * Nothing is normalized here: what is spelled otherwise is refused.
 *
 * | location | contains |
 * |---|---|
 * | `file:///srv/work` | itself and what is beneath it, by path components |
 * | `https://h[:port]/v1` | the same scheme, host and port, and paths beneath it by segment, with any query |
 * | `https://h/v1?q` | exactly itself |
 * | `host:h`, `host:h:443` | the host at any port, or at that one: hosts, urls; without a port repositories |
 * | `domain:example.com` | it and its subdomains: domains, hosts, urls, mailboxes, repositories |
 * | `mailto:ada@example.com` | exactly itself |
 * | `repo:server/team` | repositories beneath it by component, with their branches |
 * | `repo:server/team/app#main` | exactly that branch |
 * | `sql:db`, `sql:db/schema`, `sql:db/schema/table` | what is beneath it |
 * | `program:git`, `program:git/push` | the program with its subcommands, the subcommand |
 * | `id:account:7` | exactly itself |
 *
 * A url is compared by its segments as they are spelled. Empty segments at the end of a location do not
 * count.
 *
 * @module
 */

import { hostDomains, splitPort } from "./hosts.js";
import { PORTS, decodesToDots, hasOddCharacter, isFilePath, isIban, isRef, utf8Length } from "./spelling.js";
import { codePoints } from "./values.js";

const MAX_URI_CHARACTERS = 8_192;
/** RFC 3986: pchar and `/` stand in a path as they are; the rest is percent-encoded UTF-8. */
const SAFE = "!$&'()*+,;=:@/";
const UNRESERVED = /[A-Za-z0-9_.~-]/;
const CANONICAL = /^[\x21-\x7e]*$/;
const URL_SHAPE = /^(https?|wss?|ftp):\/\/([^/?#@]*)(\/[!$-;=@-[\]^_a-z|~]*)(\?[!$-&(-;=?-~]*)?$/;
const MAX_SEGMENTS = 128;
const DATABASE = /^[a-z][a-z0-9_-]{0,63}$/;
// White space is spelled out: `\s` of this language has one character more, and two less, than the service's.
const PROGRAM = new RegExp(
  String.raw`^[^\x00-\x20\x7f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000/]+` +
    "(?:/[A-Za-z0-9][A-Za-z0-9_-]*)?$",
  "u",
);
const OBJECT_TYPE = /^[a-z][a-z0-9_]{0,255}$/;
const LOCAL_PART = /^[^\x00-\x20\x7f()<>[\]:;@\\,."%!]+(?:\.[^\x00-\x20\x7f()<>[\]:;@\\,."%!]+)*$/u;
const NOT_IN_A_REPO = /[\\%?# ]/;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** A canonical URI, and the keys of all that it lies in (its own among them). */
export class CanonicalObject {
  /**
   * @param {string} uri
   * @param {readonly string[]} above its own key first
   */
  constructor(uri, above) {
    this.uri = uri;
    this.key = above[0] ?? "";
    /** @type {ReadonlySet<string>} */
    this.above = new Set(above);
    Object.freeze(this);
  }

  /**
   * Whether `location` contains this object. Reflexive and transitive.
   *
   * @param {CanonicalObject} location
   */
  liesIn(location) {
    return this.above.has(location.key);
  }
}

/**
 * The object of a canonical URI; `null` for another spelling or a kind that no capability can name.
 *
 * @param {string} uri
 * @returns {CanonicalObject | null}
 */
export function parseObject(uri) {
  // ASCII and no white space: everything else is percent-encoded in a canonical URI.
  if (uri.length > MAX_URI_CHARACTERS || !CANONICAL.test(uri)) return null;
  const [scheme, rest] = partition(uri, ":");
  const keys = KINDS.get(scheme)?.(uri, rest) ?? null;
  return keys === null ? null : new CanonicalObject(uri, keys);
}

/** @typedef {readonly string[] | null} Keys the key of the object, then those of what contains it */

/**
 * @param {string} text
 * @param {string} mark
 * @returns {readonly [string, string, boolean]} what is before, what is after, and whether there is a mark
 */
function partition(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text, "", false] : [text.slice(0, at), text.slice(at + mark.length), true];
}

/**
 * `text` percent-encoded, as UTF-8.
 *
 * @param {string} text
 * @param {string} [alsoEncoded]
 */
export function quote(text, alsoEncoded = "") {
  let found = "";
  for (const byte of encoder.encode(text)) {
    const char = String.fromCharCode(byte);
    const stands =
      byte < 0x80 && (UNRESERVED.test(char) || (SAFE.includes(char) && !alsoEncoded.includes(char)));
    found += stands ? char : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }
  return found;
}

/**
 * `text` percent-decoded once, if it is the one encoding of what it decodes to.
 *
 * @param {string} text ASCII
 * @param {string} [alsoEncoded]
 * @returns {string | null}
 */
function decoded(text, alsoEncoded = "") {
  const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  try {
    const found = decoder.decode(Uint8Array.from(bytes, (char) => char.charCodeAt(0)));
    return quote(found, alsoEncoded) === text ? found : null;
  } catch {
    return null;
  }
}

/**
 * `path` and every path above it, by `/`, as keys.
 *
 * @param {string} scheme
 * @param {string} path
 */
function prefixes(scheme, path) {
  const found = [];
  for (let rest = path; rest !== ""; rest = rest.slice(0, Math.max(rest.lastIndexOf("/"), 0))) {
    found.push(`${scheme}:${rest}`);
  }
  return found;
}

/** @param {string} text */
function withoutSlashesAtEnd(text) {
  return text.replace(/\/+$/, "");
}

/**
 * @param {string} _uri
 * @param {string} rest
 * @returns {Keys}
 */
function file(_uri, rest) {
  if (!rest.startsWith("///")) return null;
  const path = decoded(rest.slice(2));
  if (path === null || !isFilePath(path)) return null;
  return [...prefixes("file", withoutSlashesAtEnd(rest.slice(2))), "file:/"];
}

/**
 * @param {string} uri
 * @returns {Keys}
 */
function url(uri) {
  const found = URL_SHAPE.exec(uri);
  if (found === null) return null;
  const [, scheme = "", authority = "", path = "", query] = found;
  const split = splitPort(authority);
  if (split === null) return null;
  const [host, port] = split;
  if (PORTS.get(scheme) === port || path.split("/").length > MAX_SEGMENTS || decodesToDots(path)) return null;
  const beneath = prefixes(scheme, `//${authority}${withoutSlashesAtEnd(path)}`);
  // The last two are the two slashes in front of the host.
  const keys = beneath.filter((key) => key.length > scheme.length + 3);
  const own = query === undefined ? [] : [`${scheme}:query:${uri}`];
  return [...own, ...keys, ...hostKeys(host, port || (PORTS.get(scheme) ?? ""))];
}

/**
 * @param {string} host
 * @param {string} port
 */
function hostKeys(host, port) {
  const domains = (hostDomains(host) ?? []).map((domain) => `domain:${domain}`);
  return [...(port === "" ? [] : [`host:${host}:${port}`]), `host:${host}`, ...domains];
}

/**
 * @param {string} _uri
 * @param {string} rest
 * @returns {Keys}
 */
function host(_uri, rest) {
  const split = splitPort(rest);
  return split === null ? null : hostKeys(...split);
}

/**
 * @param {string} _uri
 * @param {string} rest
 * @returns {Keys}
 */
function domain(_uri, rest) {
  const domains = hostDomains(rest);
  return domains === null || domains.length === 0 ? null : domains.map((name) => `domain:${name}`);
}

/**
 * @param {string} uri
 * @param {string} rest
 * @returns {Keys}
 */
function mailto(uri, rest) {
  const address = decoded(rest, "&/");
  if (address === null || address.split("@").length !== 2) return null;
  const [local, name] = partition(address, "@");
  const domains = hostDomains(name);
  if (
    domains === null ||
    domains.length === 0 ||
    local !== local.normalize("NFC").toLowerCase().normalize("NFC") ||
    !LOCAL_PART.test(local) ||
    hasOddCharacter(local) ||
    local.includes("=?") ||
    utf8Length(local) > 64 ||
    utf8Length(address) > 254
  ) {
    return null;
  }
  return [uri, ...domains.map((above) => `domain:${above}`)];
}

/**
 * @param {string} uri
 * @param {string} rest
 * @returns {Keys}
 */
function repo(uri, rest) {
  const [name, branch, hasBranch] = partition(rest, "#");
  // Brackets of an address are encoded.
  const [server, path, hasPath] = partition(decoded(name) ?? "", "/");
  const split = splitPort(server);
  if (split === null || (hasPath && !isRepoPath(path))) return null;
  const ref = hasBranch ? decoded(branch) : null;
  if (hasBranch && (ref === null || !isRef(ref))) return null;
  return [...(hasBranch ? [uri] : []), ...prefixes("repo", name), ...hostKeys(split[0], "")];
}

/** @param {string} path */
function isRepoPath(path) {
  const parts = path.split("/");
  return (
    parts.length <= 32 &&
    !path.endsWith(".git") &&
    parts.every((part) => part !== "" && part !== "." && part !== ".." && !NOT_IN_A_REPO.test(part)) &&
    !hasOddCharacter(path)
  );
}

/**
 * @param {string} _uri
 * @param {string} rest
 * @returns {Keys}
 */
function sql(_uri, rest) {
  const [database = "", ...names] = rest.split("/");
  if (!DATABASE.test(database) || names.length > 2) return null;
  for (const name of names) {
    const plain = decoded(name, "/");
    if (plain === null || plain === "" || /[/%]/.test(plain) || codePoints(plain) > 128) return null;
    if (hasOddCharacter(plain, { mayHoldSpaces: true })) return null;
  }
  return prefixes("sql", rest);
}

/**
 * @param {string} _uri
 * @param {string} rest
 * @returns {Keys}
 */
function program(_uri, rest) {
  const name = decoded(rest);
  return name === null || codePoints(name) > 256 || !PROGRAM.test(name) ? null : prefixes("program", rest);
}

/**
 * @param {string} uri
 * @param {string} rest
 * @returns {Keys}
 */
function id(uri, rest) {
  const [type, encoded] = partition(rest, ":");
  const value = decoded(encoded, "/");
  if (
    value === null ||
    value === "" ||
    codePoints(value) > 256 ||
    !OBJECT_TYPE.test(type) ||
    value !== value.normalize("NFC") ||
    // Other white space than U+0020 is odd anywhere.
    value.startsWith(" ") ||
    value.endsWith(" ") ||
    hasOddCharacter(value, { mayHoldSpaces: true }) ||
    (type === "iban" && !isIban(value))
  ) {
    return null;
  }
  return [uri];
}

/** @type {ReadonlyMap<string, (uri: string, rest: string) => Keys>} */
const KINDS = new Map([
  ["file", file],
  ["http", url],
  ["https", url],
  ["ws", url],
  ["wss", url],
  ["ftp", url],
  ["host", host],
  ["domain", domain],
  ["mailto", mailto],
  ["repo", repo],
  ["sql", sql],
  ["program", program],
  ["id", id],
]);
