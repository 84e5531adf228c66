// Where the library is: what EMBER_LIBRARY names, else in the package for this system, which npm installs along, else where the system
// looks for libraries.
import { createRequire } from "node:module";

const FILES = { win32: "ember.dll", darwin: "libember.dylib" };

/** Which C library this Linux has. */
function libc() {
  process.report.excludeNetwork = true; // it takes seconds where names are looked up
  return process.report.getReport().header.glibcVersionRuntime ? "gnu" : "musl";
}

export function libraryPath() {
  if (process.env.EMBER_LIBRARY) return process.env.EMBER_LIBRARY;
  const file = FILES[process.platform] ?? "libember.so";
  const system = [process.platform, process.arch, ...(process.platform === "linux" ? [libc()] : [])].join("-");
  try {
    return createRequire(import.meta.url).resolve(`@ember-inference/${system}/${file}`);
  } catch {
    return file;
  }
}
