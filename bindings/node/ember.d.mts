// For those who import the file and not the package.
export * from "./ember.js";
