//! The sentence an agent was told to end with once it believes that the work is done.

use crate::source::fence::Fence;

/// Whether the last thing said is the promise: a line of its own, with nothing after it, not shown as code.
pub fn promised(said: &str, promise: &str) -> bool {
    let mut fence = Fence::default();
    let mut last = None;
    for line in said.lines() {
        let is_code = fence.covers(line);
        if !line.trim().is_empty() {
            last = (!is_code).then_some(line);
        }
    }
    let inner =
        last.and_then(|line| line.trim().strip_prefix("<promise>")?.strip_suffix("</promise>"));
    !promise.trim().is_empty()
        && inner.is_some_and(|inner| inner.split_whitespace().eq(promise.split_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-L3c: quoted, fenced, negated or in the middle of something, it is not a claim.
    #[test]
    fn only_the_bare_promise_at_the_very_end_counts() {
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
        ];
        let no = [
            "",
            "ALL DONE",
            "<promise></promise>",
            "<promise>ALMOST DONE</promise>",
            "<promise>all done</promise>",
            "<promise>ALLDONE</promise>",
            "<Promise>ALL DONE</Promise>",
            "<promise>ALL DONE</promise>.",
            "<promise>ALL DONE",
            "<promise>\nALL DONE\n</promise>",
            "I will not print <promise>ALL DONE</promise>",
            "You asked for \"<promise>ALL DONE</promise>\"",
            "\"<promise>ALL DONE</promise>\"",
            "> <promise>ALL DONE</promise>",
            "- <promise>ALL DONE</promise>",
            "`<promise>ALL DONE</promise>`",
            "**<promise>ALL DONE</promise>**",
            "```\n<promise>ALL DONE</promise>\n```",
            "```\n<promise>ALL DONE</promise>",
            "~~~text\n<promise>ALL DONE</promise>\n\n",
            "````\n```\n<promise>ALL DONE</promise>",
            "<promise>ALL DONE</promise>\nNot yet, though.",
            "<promise>ALL DONE</promise> <promise>ALL DONE</promise>",
            "<promise>ALL DONE</promise>\n```\n```",
        ];
        for said in yes {
            assert!(promised(said, "ALL DONE"), "{said:?}");
            assert!(promised(said, " ALL\n DONE "), "{said:?}");
        }
        for said in no {
            assert!(!promised(said, "ALL DONE"), "{said:?}");
        }
    }

    #[test]
    fn an_empty_promise_is_never_kept() {
        for promise in ["", "  ", "\n"] {
            for said in ["", "<promise></promise>", "<promise> </promise>"] {
                assert!(!promised(said, promise), "{said:?} {promise:?}");
            }
        }
    }
}
