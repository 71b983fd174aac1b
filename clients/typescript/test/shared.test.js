/**
 * Public vectors, read from the folder that `AUTHZ_SHARED` names; skipped, and said so, where there is none.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { NotCanonical, canonicalJson } from "../src/canonical-json.js";
import { BadKey, Refusal, checkLine, publicKey, publishedKeys } from "../src/capabilities/index.js";
import { parseEnvelope } from "../src/capabilities/envelope.js";
import { base64url } from "../src/digests.js";
import { Fraction, NotStrictJson, parseStrict } from "../src/strict-json.js";

const folder = process.env.AUTHZ_SHARED ?? "";
const skip = folder === "" && "AUTHZ_SHARED names no folder, so the public vectors were not run";

/**
 * @param {string} name
 * @param {number} count
 * @returns {any[]}
 */
function vectors(name, count) {
  const lines = readFileSync(join(folder, "vectors", `${name}.jsonl`), "utf8")
    .split("\n")
    .filter(Boolean);
  assert.ok(lines.length >= count, name);
  return lines.map((line) => JSON.parse(line));
}

/** Where either answer is allowed, the strict one is given. */
const POLICY = {
  "chain-signed-by-root": "signature_invalid",
  "jwt-ok-ed25519-alg": "alg_refused",
  "jwt-typ-case": "typ_refused",
  "jwt-exp-float": "exp_invalid",
  "jwt-aud-list-1": "aud_invalid",
};

test("chains and tokens", { skip }, async () => {
  /** @type {Record<string, string>} */
  const policy = {};
  for (const { id, input, expected } of [
    ...vectors("delegation_chains", 32),
    ...vectors("jwt_attacks", 71),
  ]) {
    const answer = await checkLine(JSON.stringify(input));
    if (expected.result === "policy") policy[id] = answer.reason;
    else assert.equal(answer.result, expected.result, `${id}: ${answer.reason}`);
  }
  assert.deepEqual(policy, POLICY);
});

test("signatures of Wycheproof", { skip }, async () => {
  for (const { id, input, expected } of vectors("wycheproof_ed25519", 151)) {
    const [pk, msg, sig] = ["pk", "msg", "sig"].map(
      (name) => new Uint8Array(Buffer.from(input[`${name}_hex`], "hex")),
    );
    assert.ok(pk && msg && sig);
    let holds = false;
    try {
      holds = await (await publicKey({ kty: "OKP", crv: "Ed25519", x: base64url(pk) })).verifies(sig, msg);
    } catch (error) {
      assert.ok(error instanceof BadKey, id);
    }
    assert.equal(holds ? "valid" : "invalid", expected.result, id);
  }
});

test("tokens and keys of Wycheproof have nothing for us", { skip }, async () => {
  for (const { id, input } of vectors("wycheproof_jws", 200)) {
    for (const hasKid of [true, false]) {
      assert.ok(parseEnvelope(input.jws, { typ: "cap+jwt", hasKid }) instanceof Refusal, id);
    }
  }
  for (const { id, input } of vectors("wycheproof_jwk", 26)) {
    const loaded = await publishedKeys(input.jwks).catch((error) => {
      assert.ok(error instanceof BadKey, id);
      return new Map();
    });
    assert.equal(loaded.size, 0, id);
  }
});

test("canonical JSON", { skip }, () => {
  for (const { id, input, expected } of vectors("jcs_rfc8785", 26)) {
    let form = "reject";
    try {
      form = Buffer.from(canonicalJson(parseStrict(input.json_text, { keepFractions: true }))).toString(
        "hex",
      );
    } catch (error) {
      assert.ok(error instanceof NotStrictJson || error instanceof NotCanonical, String(error));
    }
    assert.equal(form, expected.canonical_utf8_hex ?? "reject", id);
  }
  for (const { id, input, expected } of vectors("jcs_numbers", 1205)) {
    const number = Buffer.from(input.ieee754_hex, "hex").readDoubleBE();
    if (expected.json_number === undefined)
      assert.throws(() => canonicalJson(new Fraction(number)), NotCanonical, id);
    else assert.equal(canonicalJson(new Fraction(number)), expected.json_number, id);
  }
});
