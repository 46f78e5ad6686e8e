use super::*;

/// R-L3c: a promise that is quoted, fenced, negated or not on the last line is not a claim.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of messages")]
fn only_the_bare_promise_at_the_end_counts() {
    let yes = [
        "<promise>ALL DONE</promise>",
        "Everything passes.\n\n<promise>ALL DONE</promise>",
        "<promise>ALL DONE</promise>\n\n  \n",
        "a\r\n  <promise>ALL DONE</promise>  \r\n",
        "<promise> ALL   DONE </promise>",
        "<promise>ALL\tDONE</promise>",
        "```\ncargo test\n```\n<promise>ALL DONE</promise>",
        "~~~\n```\n~~~\n<promise>ALL DONE</promise>",
        "See `<promise>` above.\n<promise>ALL DONE</promise>",
        "**<promise>ALL DONE</promise>**",
        "> You asked for it.\n\n<promise>ALL DONE</promise>",
        "It was not easy.\n<promise>ALL DONE</promise>",
        "- The API did not change\n\n<promise>ALL DONE</promise>",
        "<promise>ALL DONE</promise>.",
        "<promise>\nALL DONE\n</promise>",
        "*<promise>ALL DONE</promise>*",
        "<promise>ALL DONE</promise>\n```\n```",
        "All 14 tests pass. <promise>ALL DONE</promise>",
        "All 14 tests pass: <promise>ALL DONE</promise>",
        "It was not easy. **<promise>ALL DONE</promise>**",
        "I fixed `main.rs`, and the suite is green. <promise>ALL DONE</promise> Summary: 3 files changed.",
        "<promise>ALL DONE</promise>\n\n## Summary\n\n- parser rewritten\n- 3 tests added\n",
        "To signal completion:\n\n<promise>ALL DONE</promise>\n\nThanks!",
        "The tag `<promise>X</promise>` follows.\n\nReady. <promise>ALL DONE</promise>",
    ];
    let no = [
        "",
        "ALL DONE",
        "<promise></promise>",
        "<promise>ALMOST DONE</promise>",
        "<promise>all done</promise>",
        "<promise>ALLDONE</promise>",
        "<Promise>ALL DONE</Promise>",
        "<promise>ALL DONE",
        "I will not print <promise>ALL DONE</promise>",
        "I will not say\n\n<promise>ALL DONE</promise>",
        "You asked for \"<promise>ALL DONE</promise>\"",
        "\"<promise>ALL DONE</promise>\"",
        "> <promise>ALL DONE</promise>",
        "- <promise>ALL DONE</promise>",
        "`<promise>ALL DONE</promise>`",
        "```\n<promise>ALL DONE</promise>\n```",
        "```\n<promise>ALL DONE</promise>",
        "~~~text\n<promise>ALL DONE</promise>\n\n",
        "````\n```\n<promise>ALL DONE</promise>",
        "<promise>ALL DONE</promise>\nNot yet, though.",
        "<promise>ALL DONE</promise> <promise>ALL DONE</promise>",
        "    <promise>ALL DONE</promise>",
        "\t<promise>ALL DONE</promise>",
        "> You asked me to end with\n<promise>ALL DONE</promise>",
        "I will not say\n<promise>ALL DONE</promise>",
        "I won't end with this yet:\n\n<promise>ALL DONE</promise>",
        "# <promise>ALL DONE</promise>",
        "“<promise>ALL DONE</promise>”",
        "I will print <promise>ALL DONE</promise> at the end.",
        "I'll output <promise>ALL DONE</promise> then",
        "When the tests pass: <promise>ALL DONE</promise>",
        "Once it works I end with\n<promise>ALL DONE</promise>\nand stop.",
        "You asked for this line:\n\n<promise>ALL DONE</promise>\n\nThe parser is next.",
        "Ready: '<promise>ALL DONE</promise>'",
        "<promise>ALL DONE</promise>, but two tests fail",
        "<promise>ALL DONE</promise> Shall I also update the docs?",
        "<promise>ALL DONE</promise>\n\nRemaining: the docs",
        "Fine. `<promise>ALL DONE</promise>`",
        "Fine. ``<promise>ALL DONE</promise>`` Bye.",
        "1. <promise>ALL DONE</promise>",
        "| <promise>ALL DONE</promise> |",
        "> Fine.\n<promise>ALL DONE</promise>\nThat was the task.",
        "LOOP_COMPLETE",
        "EXIT_SIGNAL: true",
    ];
    for message in yes {
        assert!(is_promised(message, "ALL DONE"), "{message:?}");
        assert!(is_promised(message, " ALL\n DONE "), "{message:?}");
    }
    for message in no {
        assert!(!is_promised(message, "ALL DONE"), "{message:?}");
    }
}

/// The rules for a bare word are the same as for a promise in a tag.
#[test]
fn a_bare_word_of_another_tool_keeps_its_promise() {
    for (message, is_kept) in [
        ("All green.\n\nLOOP_COMPLETE", true),
        ("<promise>LOOP_COMPLETE</promise>", true),
        ("I will not say\nLOOP_COMPLETE", false),
        ("```\nLOOP_COMPLETE\n```", false),
        ("TASK_COMPLETE", false),
    ] {
        assert_eq!(is_promised(message, "LOOP_COMPLETE"), is_kept, "{message:?}");
    }
}

#[test]
fn an_empty_promise_never_matches() {
    for promise in ["", "  ", "\n"] {
        for message in ["", "<promise></promise>", "<promise> </promise>"] {
            assert!(!is_promised(message, promise), "{message:?} {promise:?}");
        }
    }
}

/// R-L3c: markers of other tools, and text that only looks like them.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn markers_of_other_tools_are_recognised() {
    const LAST: &str = "---END_RALPH_STATUS---";
    let status = |body: &str| alloc::format!("Done.\n\n---RALPH_STATUS---\n{body}\n{LAST}");
    for (message, expected) in [
        ("LOOP_COMPLETE", Some(CompletionMarker::Plain("LOOP_COMPLETE"))),
        ("All 14 pass.\n\nLOOP_COMPLETE\n", Some(CompletionMarker::Plain("LOOP_COMPLETE"))),
        ("**VERIFIED_DONE**", Some(CompletionMarker::Plain("VERIFIED_DONE"))),
        ("ALL_TASKS_COMPLETE", Some(CompletionMarker::Plain("ALL_TASKS_COMPLETE"))),
        ("TASK_COMPLETE", Some(CompletionMarker::Plain("TASK_COMPLETE"))),
        (
            "<<<RALPHEX:ALL_TASKS_DONE>>>",
            Some(CompletionMarker::Plain("<<<RALPHEX:ALL_TASKS_DONE>>>")),
        ),
        (
            "CONTINUOUS_CLAUDE_PROJECT_COMPLETE",
            Some(CompletionMarker::Plain("CONTINUOUS_CLAUDE_PROJECT_COMPLETE")),
        ),
        ("EXIT_SIGNAL: true", Some(CompletionMarker::ExitSignal)),
        ("EXIT_SIGNAL:true", Some(CompletionMarker::ExitSignal)),
        ("<promise>COMPLETE</promise>", Some(CompletionMarker::Promise("COMPLETE"))),
        ("<promise> BLOCKED </promise>", Some(CompletionMarker::Promise("BLOCKED"))),
        ("COMPLETE", None),
        ("DONE", None),
        ("EXIT_SIGNAL: false", None),
        ("EXIT_SIGNAL: TRUE", None),
        ("EXIT_SIGNAL true", None),
        ("not yet VERIFIED_DONE", None),
        ("I will not say LOOP_COMPLETE", None),
        ("I will never say:\nLOOP_COMPLETE", None),
        ("This isn't\nLOOP_COMPLETE", None),
        ("LOOP_COMPLETE.", None),
        ("loop_complete", None),
        ("LOOP_COMPLETE\nAlmost.", None),
        ("`LOOP_COMPLETE`", None),
        ("'LOOP_COMPLETE'", None),
        ("\"LOOP_COMPLETE\"", None),
        ("«LOOP_COMPLETE»", None),
        ("> LOOP_COMPLETE", None),
        ("- LOOP_COMPLETE", None),
        ("```\nLOOP_COMPLETE\n```", None),
        ("```\nLOOP_COMPLETE", None),
        ("    LOOP_COMPLETE", None),
        ("<promise><promise>DONE</promise></promise>", None),
        ("ralph: end your message with the line <promise>DONE</promise>", None),
        ("│ <promise>DONE</promise>", None),
    ] {
        assert_eq!(find_marker(message), expected, "{message:?}");
    }
    for (body, expected) in [
        ("EXIT_SIGNAL: true", Some(CompletionMarker::ExitSignal)),
        (
            "STATUS: COMPLETE\nTESTS_STATUS: PASSING\nEXIT_SIGNAL: true\nRECOMMENDATION: none",
            Some(CompletionMarker::ExitSignal),
        ),
        ("STATUS: COMPLETE\nEXIT_SIGNAL: false", None),
        ("STATUS: IN_PROGRESS\nEXIT_SIGNAL: true", None),
        ("STATUS: COMPLETE\nTESTS_STATUS: FAILING\nEXIT_SIGNAL: true", None),
        ("EXIT_SIGNAL: true\nEXIT_SIGNAL: false", None),
        ("STATUS: COMPLETE", None),
        ("EXIT_SIGNAL: true\nwhatever", None),
    ] {
        assert_eq!(find_marker(&status(body)), expected, "{body:?}");
        let quoted = status(body).replace('\n', "\n> ");
        assert_eq!(find_marker(&quoted), None, "{quoted:?}");
        assert_eq!(find_marker(&alloc::format!("```\n{}\n```", status(body))), None, "{body:?}");
    }
    for odd in [
        LAST,
        "---END_RALPH_STATUS---\n---END_RALPH_STATUS---",
        "EXIT_SIGNAL: true\n---END_RALPH_STATUS---",
    ] {
        assert_eq!(find_marker(odd), None, "{odd:?}");
    }
    assert_eq!(find_marker("---RALPH_STATUS---\nSTATUS: IN_PROGRESS\nEXIT_SIGNAL: true"), None);
}

/// The status of ralph-claude-code as YAML.
#[test]
fn a_status_in_yaml_is_recognised() {
    for (message, expected) in [
        ("RALPH_STATUS:\n  EXIT_SIGNAL: true", true),
        (
            "All done.\n\nRALPH_STATUS:\n  STATUS: COMPLETE\n  TESTS_STATUS: PASSING\n  EXIT_SIGNAL: true\n",
            true,
        ),
        (
            "RALPH_STATUS:\n    STATUS: \"COMPLETE\"\n    EXIT_SIGNAL: True\n    RECOMMENDATION: none",
            true,
        ),
        ("RALPH_STATUS:\n  EXIT_SIGNAL: true\n  FILES:\n    - main.rs\n    - lib.rs\n---", true),
        ("RALPH_STATUS:\n  STATUS: IN_PROGRESS\n  EXIT_SIGNAL: true", false),
        ("RALPH_STATUS:\n  TESTS_STATUS: FAILING\n  EXIT_SIGNAL: true", false),
        ("RALPH_STATUS:\n  EXIT_SIGNAL: false", false),
        ("RALPH_STATUS:\n  STATUS: COMPLETE", false),
        ("RALPH_STATUS:\n  EXIT_SIGNAL: true\n  nonsense", false),
        ("RALPH_STATUS:", false),
        ("RALPH_STATUS:\n  EXIT_SIGNAL: true\n\nTwo tests fail.", false),
        ("```yaml\nRALPH_STATUS:\n  EXIT_SIGNAL: true\n```", false),
        ("> RALPH_STATUS:\n>   EXIT_SIGNAL: true", false),
        ("I will not say\nRALPH_STATUS:\n  EXIT_SIGNAL: true", false),
    ] {
        let expected = expected.then_some(CompletionMarker::ExitSignal);
        assert_eq!(find_marker(message), expected, "{message:?}");
    }
}

#[test]
fn an_ignored_marker_has_a_reason() {
    let code = "it is in code or a quotation";
    for (message, why) in [
        ("Done.", None),
        ("`<promise>` is a tag", None),
        ("TASK_COMPLETE is the name of the event", None),
        (
            "```\nLOOP_COMPLETE\n```",
            Some("it must be the last line, alone on it, and neither quoted nor denied"),
        ),
        ("```\n<promise>DONE</promise>\n```", Some(code)),
        ("Fine. `<promise>DONE</promise>`", Some(code)),
        ("> <promise>DONE</promise>", Some(code)),
        ("\"<promise>DONE</promise>\"", Some("it is in quotation marks")),
        ("- <promise>DONE</promise>", Some("it is in a list, a heading or a table")),
        ("I will print <promise>DONE</promise>", Some("the sentence only mentions it")),
        (
            "<promise>DONE</promise> but two tests fail",
            Some("the text after it says that something is open"),
        ),
        ("<promise>DONE</promise> <promise>DONE</promise>", Some("the message has more than one")),
        (
            "---RALPH_STATUS---\nSTATUS: IN_PROGRESS\nEXIT_SIGNAL: true\n---END_RALPH_STATUS---",
            Some("it is not the end of the message, or its status block reports unfinished work"),
        ),
        (
            "```yaml\nRALPH_STATUS:\n  EXIT_SIGNAL: true\n```",
            Some("it is in code, a quotation or an unfinished status block"),
        ),
    ] {
        let found = inspect_marker(message).map(|found| found.unwrap_err().why);
        assert_eq!(found, why, "{message:?}");
    }
}

#[test]
fn some_promises_mean_that_all_is_done() {
    let done = |promise| CompletionMarker::Promise(promise).means_done();
    assert!(["DONE", "COMPLETE", "ALL  DONE", "VERIFIED_DONE"].into_iter().all(done));
    assert!(!["BLOCKED", "READY_FOR_NEXT_TASK", "done", "not DONE", ""].into_iter().any(done));
    assert!(
        CompletionMarker::ExitSignal.means_done()
            && CompletionMarker::Plain("LOOP_COMPLETE").means_done()
    );
}
