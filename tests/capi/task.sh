#!/bin/sh
# One of the tasks of run.sh, which sets its environment: compiles a C test and runs it, or does that with all examples, and
# says in one piece what they said.
#
#   tests/capi/task.sh test_NAME|examples
set -eu

task=$1
work=$OUT/$LINKAGE-$task
mkdir "$work"

# compile SOURCE: into the folder of this task.
compile() {
    program=$work/$(basename "$1" .c)
    case $LINKAGE in
    static) set -- "$1" "$LIB/libember.a" -lpthread -ldl -lm ;;
    *) set -- "$1" "-L$LIB" -lember "-Wl,-rpath,$LIB" -lpthread -ldl -lm ;;
    esac
    # shellcheck disable=SC2086
    "${CC:-cc}" $CFLAGS $LDFLAGS -o "$program" "$@"
}

all() {
    if [ "$task" = examples ]; then
        for source in examples/c/*.c; do
            compile "$source" || return 1
        done
        # shellcheck disable=SC2086 # nothing, or one path
        sh tests/capi/examples.sh "$work" "$MODEL" $CHAT_MODEL
    else
        compile "tests/capi/$task.c" || return 1
        # shellcheck disable=SC2086
        $RUNNER "$work/$task" "$MODEL"
    fi
}

status=0
all >"$work/said" 2>&1 || status=$?
cat "$work/said"
[ "$status" -eq 0 ] || echo "$task ($LINKAGE) failed with $status"
rm -rf "$work"
exit "$status"
