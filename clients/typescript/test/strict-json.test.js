/** JSON in and out: what `JSON.parse` and `JSON.stringify` agree with, and what they let through. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { NotCanonical, canonicalJson } from "../src/canonical-json.js";
import { base64url, fromBase64url } from "../src/digests.js";
import { Fraction, NotStrictJson, parseStrict } from "../src/strict-json.js";

/** @type {[string, string | Uint8Array][]} */
const REFUSED = [
  ["nothing", ""],
  ["a duplicate name", '{"a":1,"a":1}'],
  ["a duplicate name by an escape", '{"a":1,"\\u0061":2}'],
  ["a duplicate name of a prototype", '{"__proto__":1,"__proto__":2}'],
  ["an integer beyond 2^53", "9007199254740992"],
  ["a long integer", "1" + "0".repeat(400)],
  ["a number that overflows", "1e400"],
  ["NaN", "NaN"],
  ["Infinity", "-Infinity"],
  ["a lone surrogate", '"\\ud800"'],
  ["surrogates the wrong way round", '"\\udc00\\ud800"'],
  ["a control in a string", '"\n"'],
  ["an unknown escape", '"\\x41"'],
  ["an escape of a prototype", '"\\constructor"'],
  ["a short escape", '"\\u12"'],
  ["a leading zero", "01"],
  ["a plus", "+1"],
  ["a bare point", "1."],
  ["a comma too many", "[1,]"],
  ["a comma too many in an object", '{"a":1,}'],
  ["a name that is none", "{a:1}"],
  ["two values", "1 2"],
  ["other white space", "\u00a01"],
  ["a byte order mark", "\ufeff1"],
  ["a word that goes on", "nullx"],
  ["bad UTF-8", new Uint8Array([0x22, 0xc0, 0xae, 0x22])],
  ["nesting over 64", "[".repeat(65) + "]".repeat(65)],
  ["deep nesting", "[".repeat(100_000)],
  ["over 10,000 values", `[${"1,".repeat(10_000)}1]`],
];

for (const [name, text] of REFUSED) {
  test(`refused: ${name}`, () => {
    assert.throws(() => parseStrict(text), NotStrictJson);
  });
}

test("all else is what JSON.parse says", () => {
  const texts = [
    "0",
    "-1",
    "1.5",
    "-2.5e-3",
    "true",
    "false",
    "null",
    '""',
    '"a\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"',
    '"\\ud83d\\ude00"',
    "[]",
    "{}",
    ' { "a" : [ 1 , { "b" : null } ] } \t\r\n',
    '{"__proto__":{"a":1}}',
    '{"constructor":1}',
    "9007199254740991",
    "[".repeat(64) + "]".repeat(64),
  ];
  for (const text of texts) {
    assert.deepEqual(parseStrict(new TextEncoder().encode(text)), JSON.parse(text));
    assert.deepEqual(parseStrict(text), JSON.parse(text));
  }
  const named = parseStrict('{"__proto__":{"admin":true}}');
  assert.equal(named.admin, undefined);
  assert.ok(Object.hasOwn(named, "__proto__"));
});

test("an integer is one that is written as one", () => {
  const read = parseStrict('[5,5.0,5e0,-0,2.5,"5"]', { keepFractions: true });
  assert.deepEqual(read, [5, new Fraction(5), new Fraction(5), 0, 2.5, "5"]);
  assert.ok(Object.is(parseStrict("-0"), 0));
});

test("the canonical form is one, and of JSON only", () => {
  const value = {
    b: [1, 0.5, 1e21, -0],
    a: { "\u20ac": "\u2028", "\ud83d\ude00": null, "\ufb33": true },
    u: undefined,
  };
  const form = '{"a":{"\u20ac":"\u2028","\ud83d\ude00":null,"\ufb33":true},"b":[1,0.5,1e+21,0]}';
  assert.throws(() => canonicalJson(value), NotCanonical, "an integer beyond 2^53 may have been rounded");
  value.b[2] = 2;
  assert.equal(canonicalJson(value), form.replace("1e+21", "2"));
  assert.equal(canonicalJson(new Fraction(1e21)), "1e+21");
  const bad = [
    NaN,
    Infinity,
    2 ** 53,
    1n,
    undefined,
    [undefined],
    Array(1),
    Symbol.iterator,
    new Date(),
    new Map(),
    "\ud800",
    { "\ud800": 1 },
  ];
  for (const one of bad) assert.throws(() => canonicalJson(one), NotCanonical);
  assert.equal(canonicalJson(Object.assign(Object.create(null), { a: 1 })), '{"a":1}');
  assert.equal(canonicalJson(parseStrict('{"__proto__":1}')), '{"__proto__":1}');
});

test("base64url has one spelling", () => {
  for (const length of [0, 1, 2, 3, 4, 31, 32, 33]) {
    const data = Uint8Array.from({ length }, (_, at) => (at * 37 + 250) % 256);
    assert.equal(base64url(data), Buffer.from(data).toString("base64url"));
    assert.deepEqual(fromBase64url(base64url(data)), data);
  }
  for (const text of ["A", "AB", "AAB", "AA==", "A A", "A+/A", "AAAAA", "\u0100AAA", "AA\n"]) {
    assert.equal(fromBase64url(text), null, text);
  }
});
