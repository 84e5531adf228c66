// The library itself: what it is, and what it says.
import { Callback, call, numbersAt, refused, utf8 } from "./native.mjs";

const versionOf = call.returning("const char *", "ember_version_string");
const buildOf = call.returning("const char *", "ember_build_info");
const feature = call.returning("int32_t", "ember_has_feature", "uint8_t *name, size_t n");
const logSet = call("ember_log_set", "ember_log_callback *callback, void *user_data, int32_t level");

const LEVELS = ["error", "warn", "info", "debug"];

/** The version of the library, "0.2.0" for example. */
export const version = () => versionOf();

/** One line on what the library can do: version, architectures, number formats, instruction sets, target. */
export const buildInfo = () => buildOf();

/** Whether the library has a part: "chat", "hf", "tokenizers", "constraints". */
export const hasFeature = (name) => feature(...utf8(name)) !== 0;

let current;

/**
 * Has the lines of this level ("error", "warn", "info", "debug") and of those that matter more come to `f(level, text)`, for all models of
 * the process; without `f` the library is silent, as it is at the start. A thread of the library that has something to say waits until the
 * event loop gets to it. An exception from `f` is an uncaught one.
 */
export function setLog(level, f) {
  if (f !== undefined && typeof f !== "function") throw refused("setLog takes a level and a function");
  const index = f === undefined ? 0 : LEVELS.indexOf(level);
  if (index < 0) throw refused(`the level must be one of ${LEVELS.join(", ")}, not ${level}`);
  const before = current;
  const after = f === undefined ? undefined : new Callback("ember_log_callback", undefined, (n, text, length) => {
    const line = Buffer.from(numbersAt(text, "uint8_t", Number(length))).toString();
    try {
      f(LEVELS[n - 1], line);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  });
  logSet(after?.pointer ?? null, null, index + 1);
  current = after;
  // Other threads may be about to call it.
  if (before !== undefined) setTimeout(() => before.close(), 1000).unref();
}

// Threads of the library may outlive the event loop.
process.on("exit", () => current !== undefined && logSet(null, null, 1));
