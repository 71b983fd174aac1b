/**
 * The token profile: the repository's golden chains, narrowing, proofs, tickets, and calls against entries.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import * as cap from "../src/capabilities/index.js";
import { sign } from "../src/capabilities/envelope.js";
import { NOTHING_REVOKED, Reason, Refusal, Refused } from "../src/capabilities/index.js";
import { repositoryJson } from "./support.js";

const NOW = 1_800_000_000;
const ISSUER = "https://issuer.example.com";
const AUDIENCE = "https://pdp.example.com";
/** @type {cap.EntryJson} */
const ENTRY = {
  type: "agent_tool_call",
  actions: ["fs/file_read", "write"],
  locations: ["file:///srv/data"],
  constraints: { size: { max: 10 }, "/mode": { one_of: ["r", 1] } },
  budget: { calls: 5, cost: { amount: "2.5", currency: "EUR" }, rate: { calls: 2, seconds: 60 } },
};
const [issuer, main, sub, other] = await Promise.all([
  cap.generateKey(),
  cap.generateKey(),
  cap.generateKey(),
  cap.generateKey(),
]);
const KEYS = new Map([[issuer.kid, issuer.public]]);

/** @param {Partial<Parameters<typeof cap.issueRoot>[1]>} [claims] */
function root(claims = {}) {
  return cap.issueRoot(issuer, {
    issuer: ISSUER,
    audience: AUDIENCE,
    subject: "ada",
    agent: "coder-1",
    holder: main.public,
    entries: [ENTRY],
    jti: "j-0",
    iat: NOW,
    exp: NOW + 600,
    maxDepth: 3,
    ...claims,
  });
}

/**
 * @param {readonly string[]} chain
 * @param {Partial<Parameters<typeof cap.narrow>[2]>} [child]
 */
function narrowed(chain, child = {}) {
  return cap.narrow(chain, main, { holder: sub.public, agent: "sub-1", jti: "j-1", iat: NOW, ...child });
}

/**
 * @param {unknown} chain
 * @param {Partial<Parameters<typeof cap.verifyChain>[1]>} [expected]
 */
function verified(chain, expected = {}) {
  const of = { now: NOW + 1, audience: AUDIENCE, issuer: ISSUER, keys: KEYS, revoked: NOTHING_REVOKED };
  return cap.verifyChain(chain, { ...of, ...expected });
}

/**
 * @template T
 * @param {T | Refusal} found
 * @returns {T}
 */
function accepted(found) {
  assert.ok(!(found instanceof Refusal), String(found));
  return found;
}

/** @param {Promise<unknown>} signing @param {string} reason @param {string | null} [component] */
async function refusedToSign(signing, reason, component = null) {
  await assert.rejects(signing, (error) => {
    assert.ok(error instanceof Refused, String(error));
    assert.deepEqual([error.refusal.reason, error.refusal.component], [reason, component]);
    return true;
  });
}

const golden = repositoryJson("tests/vectors/capability_chains.json");

test("every golden chain has the verdict and the reason of the Python profile", async () => {
  assert.ok(golden.length >= 437);
  for (const { id, input, expected } of golden) {
    const line = JSON.stringify(input);
    assert.deepEqual(await cap.checkLine(line), expected, `${id}: ${await cap.explainLine(line)}`);
  }
});

test("the reasons are those of the golden chains", () => {
  /** @type {Set<string>} */
  const known = new Set(Object.values(Reason));
  for (const { expected } of golden) assert.ok(expected.reason === "ok" || known.has(expected.reason));
});

test("a bad line is a reject", async () => {
  const bytes = [
    new Uint8Array([255]),
    new TextEncoder().encode("[".repeat(100_000)),
    new Uint8Array(2_000_000).fill(32),
  ];
  for (const line of ["", "{", "[]", "null", "{}", '{"chain":[],"chain":[]}', "\ud800", ...bytes]) {
    assert.deepEqual(await cap.checkLine(line), { result: "reject", reason: "line_invalid" });
  }
});

test("a chain says who acts, for whom, with what", async () => {
  const chain = await narrowed([await root()], { entries: [{ ...ENTRY, actions: ["fs/file_read:read"] }] });
  const found = accepted(await verified(chain));
  assert.deepEqual(
    [found.subject, found.agents, found.leaf.depth, found.maxDepth],
    ["ada", ["coder-1", "sub-1"], 1, 3],
  );
  assert.deepEqual(found.leaf.parents, [0]);
  assert.equal(found.expiresAt, NOW + 600);
  assert.ok(found.leaf.holder.equals(sub.public));
});

/** @type {[string, Partial<Parameters<typeof cap.narrow>[2]>, string, string | null][]} */
const WIDER = [
  ["rights", { entries: [{ ...ENTRY, actions: ["fs/file_edit"] }] }, Reason.RIGHTS_WIDENED, "R"],
  ["objects", { entries: [{ ...ENTRY, locations: ["file:///srv"] }] }, Reason.OBJECTS_WIDENED, "O"],
  [
    "a dropped condition",
    { entries: [{ ...ENTRY, constraints: { size: { max: 10 } } }] },
    Reason.PREDICATE_WIDENED,
    "P",
  ],
  [
    "a loosened condition",
    { entries: [{ ...ENTRY, constraints: { ...ENTRY.constraints, size: { max: 11 } } }] },
    Reason.PREDICATE_WIDENED,
    "P",
  ],
  [
    "a raised budget",
    { entries: [{ ...ENTRY, budget: { ...ENTRY.budget, calls: 6 } }] },
    Reason.PREDICATE_WIDENED,
    "P",
  ],
  [
    "a slower rate in less time",
    { entries: [{ ...ENTRY, budget: { ...ENTRY.budget, rate: { calls: 2, seconds: 59 } } }] },
    Reason.PREDICATE_WIDENED,
    "P",
  ],
  ["expiry", { exp: NOW + 601 }, Reason.EXPIRY_WIDENED, "E"],
  ["depth", { maxDepth: 4 }, Reason.MAX_DEPTH_RAISED, null],
  ["an action that is none", { entries: [{ ...ENTRY, actions: ["*"] }] }, Reason.ACTION_INVALID, null],
  [
    "a location that is not canonical",
    { entries: [{ ...ENTRY, locations: ["file:///srv/data/../x"] }] },
    Reason.LOCATION_INVALID,
    null,
  ],
  ["a date that is no integer", { iat: 1.5 }, Reason.IAT_INVALID, null],
  [
    "a value that is no JSON",
    { entries: [{ ...ENTRY, constraints: { size: { max: NaN } } }] },
    Reason.TOKEN_JSON,
    null,
  ],
];

for (const [name, child, reason, component] of WIDER) {
  test(`a wider child is not signed: ${name}`, async () => {
    await refusedToSign(narrowed([await root()], child), reason, component);
  });
}

test("only the holder narrows, and only as deep as it may", async () => {
  const chain = [await root({ maxDepth: 0 })];
  await refusedToSign(narrowed(chain), Reason.DEPTH_EXCEEDED);
  await refusedToSign(
    cap.narrow(chain, sub, { holder: sub.public, jti: "j", iat: NOW }),
    Reason.HOLDER_MISMATCH,
  );
  await refusedToSign(narrowed([]), Reason.CHAIN_EMPTY);
  await refusedToSign(root({ exp: 1e300 }), Reason.TOKEN_JSON);
});

test("a forged link is refused, and named", async () => {
  const chain = await narrowed([await root()]);
  const forged = await cap.narrow(chain, sub, { holder: other.public, jti: "j-2", iat: NOW });
  // Signed by the root's holder, and not by the one above it.
  const { payload } = parts(String(forged.at(-1)));
  const by = await sign(payload, main, { typ: "cap+jwt" });
  const found = await verified([...chain, by]);
  assert.ok(found instanceof Refusal);
  assert.deepEqual([found.reason, found.link], [Reason.SIGNATURE_INVALID, 2]);
  accepted(await verified(forged));
  for (const bad of [null, "x", [], [1], [...Array(10).fill(chain[0])]]) {
    assert.ok((await verified(bad)) instanceof Refusal);
  }
});

/** @param {string} token */
function parts(token) {
  const [, payload = ""] = token.split(".");
  return { payload: JSON.parse(Buffer.from(payload, "base64url").toString()) };
}

test("dates, keys and revocations are looked at for every use", async () => {
  const chain = await narrowed([await root()]);
  const found = accepted(await verified(chain));
  const leaf = found.leaf.handles;
  /** @type {[Partial<Parameters<typeof cap.verifyChain>[1]>, string][]} */
  const cases = [
    [{ now: NOW + 600 }, Reason.EXPIRED],
    [{ now: NaN }, Reason.EXPIRED],
    [{ now: NOW - 61 }, Reason.IAT_IN_FUTURE],
    [{ issuer: "https://other.example.com" }, Reason.ISS_MISMATCH],
    [{ audience: "https://other.example.com" }, Reason.AUD_MISMATCH],
    [{ keys: new Map() }, Reason.KID_UNKNOWN],
    [{ keys: new Map([[issuer.kid, other.public]]) }, Reason.SIGNATURE_INVALID],
    [{ revoked: { ...NOTHING_REVOKED, links: new Set([leaf.link]) } }, Reason.REVOKED_LINK],
    [{ revoked: { ...NOTHING_REVOKED, jtis: new Set(["j-0"]) } }, Reason.REVOKED_JTI],
    [{ revoked: { ...NOTHING_REVOKED, holders: new Set([main.kid]) } }, Reason.REVOKED_HOLDER],
    [{ maxDepth: 0 }, Reason.CHAIN_TOO_LONG],
    [{ maxLifetimeSeconds: 599 }, Reason.LIFETIME_TOO_LONG],
  ];
  for (const [change, reason] of cases) {
    const refused = await verified(chain, change);
    assert.ok(refused instanceof Refusal);
    assert.equal(refused.reason, reason);
  }
  const moment = { now: NOW, audience: AUDIENCE, issuer: ISSUER, keys: KEYS, revoked: NOTHING_REVOKED };
  assert.equal(cap.recheck(found, moment), null);
  assert.equal(
    cap.recheck(found, { ...moment, keys: new Map([[issuer.kid, other.public]]) })?.reason,
    Reason.KID_UNKNOWN,
  );
});

test("a revocation list that is not understood is none", () => {
  assert.deepEqual([...cap.parseRevocations({ links: [], jtis: ["j"], holders: [] }).jtis], ["j"]);
  for (const list of [
    {},
    [],
    { links: [], jtis: [] },
    { links: ["x"], jtis: [], holders: [] },
    { links: [], jtis: [1], holders: [] },
  ]) {
    assert.throws(() => cap.parseRevocations(list), TypeError);
  }
});

test("a proof is of one leaf, one request, one audience, and of now", async () => {
  const chain = accepted(await verified(await narrowed([await root()])));
  const token = String((await narrowed([await root()])).at(-1));
  const body = { subject: { agent: "sub-1" }, arguments: { b: 1, a: [2.5] }, capability: ["x"], proof: "y" };
  const requestDigest = await cap.requestDigest(body);
  assert.equal(
    requestDigest,
    await cap.requestDigest({ arguments: { a: [2.5], b: 1 }, subject: { agent: "sub-1" } }),
  );
  const claims = { audience: AUDIENCE, requestDigest, jti: "p-1", iat: NOW };
  const expected = { chain, audience: AUDIENCE, requestDigest, now: NOW + 1 };
  const proof = await cap.prove(token, sub, claims);
  const found = accepted(await cap.verifyProof(proof, expected));
  assert.deepEqual([found.jti, found.thumbprint, found.replayUntil], ["p-1", sub.kid, NOW + 60]);
  /** @type {[string, Partial<Parameters<typeof cap.verifyProof>[1]>, string][]} */
  const cases = [
    [proof, { requestDigest: "sha256:0" }, Reason.REQUEST_MISMATCH],
    [proof, { audience: "https://other.example.com" }, Reason.AUD_MISMATCH],
    [proof, { now: NOW + 60 }, Reason.PROOF_TOO_OLD],
    [proof, { now: NaN }, Reason.IAT_IN_FUTURE],
    [proof, { now: NOW - 61 }, Reason.IAT_IN_FUTURE],
    [await cap.prove(token, main, claims), {}, Reason.SIGNATURE_INVALID],
    [await cap.prove("another.leaf.token", sub, claims), {}, Reason.ATH_MISMATCH],
    [token, {}, Reason.TYP_REFUSED],
  ];
  for (const [one, change, reason] of cases) {
    const refused = await cap.verifyProof(one, { ...expected, ...change });
    assert.ok(refused instanceof Refusal);
    assert.equal(refused.reason, reason);
  }
  await refusedToSign(cap.prove(token, sub, { ...claims, jti: "" }), Reason.JTI_INVALID);
});

test("a ticket is for one call", async () => {
  const used = { path: "/srv/data/a", n: 1 };
  const claims = {
    iss: ISSUER,
    aud: "mcp:fs",
    sub: "ada",
    act: { sub: "coder-1" },
    jti: "t-1",
    iat: NOW,
    exp: NOW + 60,
    tool: "fs/file_read",
    fingerprint: "sha256:ff",
    arguments_digest: await cap.argumentsDigest(used),
    decision_id: "d-1",
    cnf: { jkt: sub.kid },
  };
  const ticket = (/** @type {object} */ more = {}) =>
    sign({ ...claims, ...more }, issuer, { typ: "cap-ticket+jwt", kid: issuer.kid });
  /** @type {Parameters<typeof cap.verifyTicket>[1]} */
  const expected = {
    jwks: KEYS,
    issuer: ISSUER,
    audience: "mcp:fs",
    fingerprint: "sha256:ff",
    arguments: used,
    holderThumbprint: sub.kid,
    now: NOW,
    revoked: NOTHING_REVOKED,
  };
  const found = accepted(await cap.verifyTicket(await ticket(), expected));
  assert.deepEqual([found.tool, found.onBehalfOf, found.token.agent], ["fs/file_read", "ada", "coder-1"]);
  /** @type {[object, Partial<Parameters<typeof cap.verifyTicket>[1]>, string][]} */
  const cases = [
    [{}, { arguments: { ...used, n: 2 } }, Reason.ARGUMENTS_MISMATCH],
    [{}, { arguments: { n: NaN } }, Reason.ARGUMENTS_MISMATCH],
    [{}, { fingerprint: "sha256:00" }, Reason.FINGERPRINT_MISMATCH],
    [{}, { holderThumbprint: null }, Reason.HOLDER_MISMATCH],
    [{ cnf: undefined }, {}, Reason.HOLDER_MISMATCH],
    [{}, { now: NOW + 60 }, Reason.EXPIRED],
    [{ exp: NOW + 901 }, {}, Reason.LIFETIME_TOO_LONG],
    [{}, { revoked: { ...NOTHING_REVOKED, jtis: new Set(["t-1"]) } }, Reason.REVOKED_JTI],
    [{}, { revoked: { ...NOTHING_REVOKED, holders: new Set([sub.kid]) } }, Reason.REVOKED_HOLDER],
    [{ scope: "all" }, {}, Reason.CLAIM_UNKNOWN],
    [{ tool: "" }, {}, Reason.TICKET_CLAIM_INVALID],
  ];
  for (const [more, change, reason] of cases) {
    const refused = await cap.verifyTicket(await ticket(more), { ...expected, ...change });
    assert.ok(refused instanceof Refusal, reason);
    assert.equal(refused.reason, reason);
  }
});

test("a call is held against entries", () => {
  const entries = accepted(
    cap.parseEntries([{ ...ENTRY, constraints: { path: { within: "file:///srv/data/in" }, n: { max: 2 } } }]),
  );
  const call = {
    tool: "fs/file_read",
    accesses: [{ verb: "read", uri: "file:///srv/data/in/a" }],
    arguments: { path: "/srv/data/in/a", n: 2 },
  };
  assert.deepEqual(cap.checkCall(entries, call), [0]);
  /** @type {[Partial<cap.ToolCall>, string, string][]} */
  const cases = [
    [{ tool: "fs/file_edit" }, Reason.RIGHT_MISSING, "R"],
    [{ tool: "file_read" }, Reason.RIGHT_MISSING, "R"],
    [{ accesses: [] }, Reason.RIGHT_MISSING, "R"],
    [{ accesses: [{ verb: "read", uri: "file:///srv/datashop" }] }, Reason.OBJECT_OUTSIDE, "O"],
    [{ accesses: [{ verb: "read", uri: "opaque:x" }] }, Reason.OBJECT_OUTSIDE, "O"],
    [{ arguments: { path: "/srv/data/in/a", n: 3 } }, Reason.CONSTRAINT_UNMET, "P"],
    [{ arguments: { path: "/srv/data/in/a", n: "2" } }, Reason.CONSTRAINT_UNMET, "P"],
    [{ arguments: { path: "/srv/data/in/a" } }, Reason.CONSTRAINT_UNMET, "P"],
    [{ arguments: { path: "/srv/data/in/../a", n: 1 } }, Reason.CONSTRAINT_UNMET, "P"],
    [{ arguments: { path: [], n: 1 } }, Reason.CONSTRAINT_UNMET, "P"],
  ];
  for (const [change, reason, component] of cases) {
    const refused = cap.checkCall(entries, { ...call, ...change });
    assert.ok(refused instanceof Refusal, JSON.stringify(change));
    assert.deepEqual([refused.reason, refused.component], [reason, component]);
  }
});

test("keys have one spelling, and keep their private part", async () => {
  const jwk = await main.privateJwk();
  assert.ok((await cap.signingKeyFromJwk(jwk)).public.equals(main.public));
  assert.equal(JSON.stringify(main).includes(jwk.d), false);
  await assert.rejects(cap.signingKeyFromJwk({ ...jwk, x: sub.public.x }), cap.BadKey);
  const inside = await cap.generateKey({ extractable: false });
  await assert.rejects(inside.privateJwk(), cap.BadKey);
  const { x } = main.public;
  for (const bad of [
    null,
    {},
    { ...main.public.jwk, alg: "EdDSA" },
    jwk,
    { kty: "OKP", crv: "Ed25519", x: `${x}=` },
    { kty: "OKP", crv: "X25519", x },
    { kty: "OKP", crv: "Ed25519", x: "A".repeat(43) },
  ]) {
    await assert.rejects(cap.publicKey(bad), cap.BadKey);
  }
  // p + k is another spelling of k (RFC 8032, section 5.1.3): a second thumbprint for one key.
  for (let k = 0; k < 19; k += 1) {
    const unreduced = Buffer.alloc(32, 0xff)
      .fill(0xed + k, 0, 1)
      .fill(0x7f, 31);
    const spelled = { kty: "OKP", crv: "Ed25519", x: unreduced.toString("base64url") };
    await assert.rejects(cap.publicKey(spelled), cap.BadKey);
  }
  const set = await cap.publishedKeys({
    keys: [
      { ...main.public.jwk, kid: "a", use: "sig" },
      { kty: "EC", kid: "b" },
    ],
  });
  assert.deepEqual([...set.keys()], ["a"]);
  for (const keys of [
    [main.public.jwk],
    [
      { ...main.public.jwk, kid: "a" },
      { kty: "EC", kid: "a" },
    ],
    [{ ...jwk, kid: "a" }],
  ]) {
    await assert.rejects(cap.publishedKeys({ keys }), cap.BadKey);
  }
});

test("a signer elsewhere is not taken on trust", async () => {
  const swapped = {
    kid: issuer.kid,
    public: issuer.public,
    sign: (/** @type {Uint8Array<ArrayBuffer>} */ data) => other.sign(data),
  };
  await assert.rejects(sign({ a: 1 }, swapped, { typ: "cap+jwt" }), cap.BadKey);
});
