#!/bin/sh
# Prints the names of the functions that include/ember.h declares, one a line, sorted.
set -eu
cd "$(dirname "$0")/../.."
# Declarations begin in the first column with a type and have their name before the first parenthesis; the names of
# callback types stand in parentheses and do not match.
grep -oE '^[a-z][A-Za-z0-9_ *]*\*? *ember_[a-z0-9_]+\(' include/ember.h | grep -oE 'ember_[a-z0-9_]+\($' | tr -d '(' | sort
