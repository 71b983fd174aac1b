/** Answers questions about the token profile, one JSON line each, so that Python can be asked the same ones. */

import { createInterface } from "node:readline";
import * as cap from "../../../clients/typescript/src/capabilities/index.js";
import { NotCanonical, canonicalJson } from "../../../clients/typescript/src/canonical-json.js";
import { fit } from "../../../clients/typescript/src/capabilities/entries.js";
import { parseObject } from "../../../clients/typescript/src/capabilities/objects.js";
import { parseRight } from "../../../clients/typescript/src/capabilities/rights.js";
import { NotStrictJson, parseStrict } from "../../../clients/typescript/src/strict-json.js";
import * as sdk from "../../../clients/typescript/src/index.js";

const read = (text) => parseStrict(text, { keepFractions: true });
const told = (found) => (found instanceof cap.Refusal ? [found.reason, found.component, found.link] : found);

/** By kind of question. */
const answers = {
  object: ({ uri }) => {
    const found = parseObject(uri);
    return found && [found.key, [...found.above].sort()];
  },
  right: ({ text }) => (parseRight(text) ? parseRight(text).above.length : null),
  json: ({ hex }) => {
    try {
      return canonicalJson(read(Uint8Array.from(Buffer.from(hex, "hex"))));
    } catch (error) {
      if (error instanceof NotStrictJson || error instanceof NotCanonical) return null;
      throw error;
    }
  },
  fit: ({ children, parents }) => {
    const [mine, theirs] = [children, parents].map((text) => cap.parseEntries(read(text)));
    if (mine instanceof cap.Refusal || theirs instanceof cap.Refusal)
      return [told(mine), told(theirs)].filter(Array.isArray);
    return told(fit(mine, theirs));
  },
  call: ({ entries, call }) => {
    const found = cap.parseEntries(read(entries));
    return told(found instanceof cap.Refusal ? found : cap.checkCall(found, read(call)));
  },
  narrow: async ({ chain, jwk, holder, entries, ...child }) => {
    const options = { ...child, holder: await cap.publicKey(holder), entries: entries && read(entries) };
    try {
      return await cap.narrow(chain, await cap.signingKeyFromJwk(jwk), options);
    } catch (error) {
      if (error instanceof cap.Refused) return told(error.refusal);
      throw error;
    }
  },
  root: async ({ jwk, holder, entries, ...claims }) =>
    cap.issueRoot(await cap.signingKeyFromJwk(jwk), {
      ...claims,
      holder: await cap.publicKey(holder),
      entries: read(entries),
    }),
  prove: async ({ leaf, jwk, ...claims }) => cap.prove(leaf, await cap.signingKeyFromJwk(jwk), claims),
  codes: () =>
    [cap.Reason, sdk.Effect, sdk.Obligation, sdk.OperationState, sdk.Outcome, sdk.ApprovalState].map(
      Object.values,
    ),
  names: () => [Object.keys(sdk), Object.keys(cap)],
};

for await (const line of createInterface({ input: process.stdin })) {
  const { kind, ...question } = JSON.parse(line);
  process.stdout.write(`${JSON.stringify(await answers[kind](question))}\n`);
}
