//! What the build makes of the header that cbindgen writes: sections, in an order in which everything is declared before it is used.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "../../header/order.rs"]
mod order;

use order::order;

/// What cbindgen writes of a small library.
const WRITTEN: &str = r#"/* A head. */

#ifndef X_H
#define X_H

/** A number. */
#define EMBER_NUMBER 7

/**
 * An event.
 */
typedef struct ember_event {
    /**
     * Its size.
     */
    size_t struct_size;
} ember_event;

/**
 * A thing.
 */
typedef struct ember_thing ember_thing;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Does something with a thing and has a comment that is longer than a line, so that it is wrapped.
 *  - @param thing the thing
 *  - @param event an event, about which there is so much to say that the line cannot hold it
 */
int32_t ember_thing_do(struct ember_thing *thing,
                       const struct ember_event *event, int32_t with_a_long_name);

/**
 * Makes an event.
 */
void ember_event_make(struct ember_event *event);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* X_H */
"#;

const THINGS: &str = "[things] Things\nclaims ember_thing*\nAbout things.\n    thing();\n";
const EVENTS: &str = "[events] Events\nclaims ember_event* EMBER_NUMBER\nAbout events.\n    event();\n";

#[test]
fn declarations_stand_in_the_sections_that_claim_them() {
    let header = order(WRITTEN, &format!("What this is.\n{EVENTS}{THINGS}")).unwrap();
    let at = |what: &str| header.find(what).unwrap_or_else(|| panic!("{header} lacks {what}"));
    let places = [
        "/* A head. */",
        "extern \"C\" {",
        " * Events\n",
        " * About events.",
        " * event();",
        // Handles stand in the first section.
        "typedef struct ember_thing ember_thing;",
        "#define EMBER_NUMBER 7",
        "typedef struct ember_event {",
        "void ember_event_make(struct ember_event *event);",
        " * Things\n",
        "int32_t ember_thing_do(\n    struct ember_thing *thing,\n    const struct ember_event *event,\n    int32_t with_a_long_name);",
        "#endif  /* EMBER_H */",
    ];
    assert!(places.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{header}");
    assert!(header.contains("\n    /** Its size. */\n"), "{header}");
    assert!(header.contains("\n * @param thing the thing\n * @param event an event, about"), "{header}");
    assert!(header.lines().all(|line| line.len() <= 80), "{header}");
    assert_eq!(order(WRITTEN, &format!("{EVENTS}{THINGS}")).unwrap(), header, "the same each time");
}

fn refusal(written: &str, sections: &str) -> String {
    match order(written, sections) {
        Ok(header) => panic!("this was taken: {header}"),
        Err(e) => e,
    }
}

#[test]
fn what_cannot_be_ordered_is_refused_by_name() {
    let both = format!("{EVENTS}{THINGS}");
    let e = refusal(WRITTEN, THINGS);
    assert_eq!(e, "no section of header/sections.txt claims EMBER_NUMBER");
    let e = refusal(WRITTEN, &format!("{THINGS}{EVENTS}"));
    assert_eq!(e, "ember_thing_do in section things needs ember_event, which section events declares later");
    let e = refusal(WRITTEN, &both.replace("EMBER_NUMBER", "EMBER_NUMBER ember_gone"));
    assert_eq!(e, "section events claims ember_gone, which the header does not declare");
    let e = refusal(WRITTEN, &both.replace("claims ember_thing*", "claims ember_thing* EMBER_NUMBER"));
    assert_eq!(e, "sections events and things both claim EMBER_NUMBER");
    let e = refusal(WRITTEN, &both.replace("    thing();\n", ""));
    assert_eq!(e, "section things has no overview or no example");
    let e = refusal(WRITTEN, &both.replace("thing();", "thing(); /* */"));
    assert!(e.starts_with("the example of section things has a line"), "{e}");
    let e = refusal(&WRITTEN.replace("/**\n * Makes an event.\n */\n", ""), &both);
    assert!(e.starts_with("a declaration after ember_thing_do has no comment: void ember_event_make"), "{e}");
}
