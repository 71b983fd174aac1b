/** Says in `types/SOURCES.sha256` which sources the types there were made from. */

import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const root = new URL("../", import.meta.url);
const sources = readdirSync(new URL("src/", root), { recursive: true })
  .map((name) => `src/${String(name).replaceAll("\\", "/")}`)
  .filter((name) => name.endsWith(".js"))
  .sort();
const digest = createHash("sha256");
for (const name of sources) digest.update(`${name}\n`).update(readFileSync(new URL(name, root)));
writeFileSync(new URL("types/SOURCES.sha256", root), `${digest.digest("hex")}\n`);
