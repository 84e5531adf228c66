// Runs a WebAssembly program that needs WASI under Node.js, with this machine's files.
//
//   node scripts/wasi.mjs PROGRAM.wasm [ARGUMENT…]
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const [program, ...args] = process.argv.slice(2);
const { HOME, EMBER_ISA, EMBER_MODELS, RUST_BACKTRACE } = process.env;
const given = { HOME, EMBER_ISA, EMBER_MODELS, RUST_BACKTRACE, PWD: process.cwd() };
const wasi = new WASI({
    version: 'preview1',
    args: [program, ...args],
    env: Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
    preopens: { '/': '/' },
    returnOnExit: true,
});
const module = await WebAssembly.compile(await readFile(program));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
